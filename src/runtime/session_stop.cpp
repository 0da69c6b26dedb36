// Runs end where their caller says so: before the next step, in the bodies of control steps too.
#include "runtime/session_state.hpp"

namespace peri::runtime {

namespace {
// What ends the run on this thread: that of the outermost session, whose bodies run on the same thread.
thread_local const std::function<bool()>* stop_of_run = nullptr;

struct Stoppable {
  const std::function<bool()>* const outer = stop_of_run;
  explicit Stoppable(const std::function<bool()>& stop) {
    if (stop) stop_of_run = &stop;
  }
  ~Stoppable() { stop_of_run = outer; }
  Stoppable(const Stoppable&) = delete;
  Stoppable& operator=(const Stoppable&) = delete;
};
}  // namespace

Status Session::State::check_stop(size_t k) const {
  if (!stop_of_run || !(*stop_of_run)()) return Ok{};
  return Error(ErrorKind::kCancelled, "the run was cancelled").at_node(program().steps[k].name);
}

Result<std::vector<Tensor>> Session::run(std::span<const Tensor> inputs) { return run(inputs, {}); }
Result<std::vector<Tensor>> Session::run(std::span<const Tensor> inputs, std::span<const View> outputs) {
  const Stoppable stoppable(state_->stop);
  return state_->run(inputs, outputs);
}
Status Session::run_resident(const ResidentRun& run) {
  const Stoppable stoppable(state_->stop);
  return state_->run_resident(run);
}
void Session::stop_when(std::function<bool()> stop) { state_->stop = std::move(stop); }

}  // namespace peri::runtime
