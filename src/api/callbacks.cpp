// The state outlives the call where a function object was copied into something that does.
#include "api/callbacks.hpp"

#include <mutex>

#include "base/fault_of_caller.hpp"

namespace peri::api {

struct Callbacks::State {
  Progress progress = nullptr;
  Stop stop = nullptr;
  void* user = nullptr;
  std::mutex mutex;
  std::optional<Error> error;

  bool failed() {
    const std::lock_guard<std::mutex> lock(mutex);
    return error.has_value();
  }
  void keep(std::optional<Error> thrown) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (thrown && !error) error = std::move(thrown);
  }
  void tell(size_t done, size_t total, const std::string& what) {
    if (failed()) return;
    std::optional<Error> thrown;
    calling("progress", true, &thrown, [&] {
      progress(user, done, total, what.c_str());
      return true;
    });
    keep(std::move(thrown));
  }
  bool asked() {
    if (failed()) return true;
    if (!stop) return false;
    std::optional<Error> thrown;
    const bool yes = calling("stop", true, &thrown, [&] { return stop(user) != 0; });
    keep(std::move(thrown));
    return yes;
  }
};

Callbacks::Callbacks(Progress progress, Stop stop, void* user) : state_(std::make_shared<State>()) {
  state_->progress = progress;
  state_->stop = stop;
  state_->user = user;
}

std::function<void(size_t, size_t, const std::string&)> Callbacks::progress() const {
  if (!state_->progress) return {};
  return [state = state_](size_t done, size_t total, const std::string& what) { state->tell(done, total, what); };
}

std::function<bool()> Callbacks::stop() const {
  if (!state_->progress && !state_->stop) return {};
  return [state = state_] { return state->asked(); };
}

std::optional<Error> Callbacks::thrown() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->error;
}

}  // namespace peri::api
