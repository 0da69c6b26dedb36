// progress and stop of one call: what they throw goes no further than here, ends the call, and is told as the caller's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace peri::api {

// progress and stop of one call. Copies share what was thrown. After an exception neither is called again, and stop()
// returns true, so that the call ends early; its result is then replaced by result().
class Callbacks {
 public:
  using Progress = void (*)(void* user, size_t done, size_t total, const char* what);
  using Stop = int (*)(void* user);
  Callbacks(Progress progress, Stop stop, void* user);
  std::function<void(size_t done, size_t total, const std::string& what)> progress() const;  // empty: not given
  std::function<bool()> stop() const;  // empty if neither is given
  // What one of them threw, else `result`.
  template <class R>
  R result(R result) const {
    if (std::optional<Error> error = thrown()) return *std::move(error);
    return result;
  }

 private:
  struct State;
  std::optional<Error> thrown() const;
  std::shared_ptr<State> state_;
};

}  // namespace peri::api
