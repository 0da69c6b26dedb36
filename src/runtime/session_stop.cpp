// Runs end when their caller asks for it: before the next step, also in the bodies of control steps.
#include "base/stop.hpp"
#include "runtime/session_state.hpp"

namespace peri::runtime {

Status Session::State::check_stop(size_t k) const {
  if (!stop_asked()) return Ok{};
  return Error(ErrorKind::kCancelled, "the run was cancelled").at_node(program().steps[k].name);
}

Result<std::vector<Tensor>> Session::run(std::span<const Tensor> inputs) { return run(inputs, {}); }
Result<std::vector<Tensor>> Session::run(std::span<const Tensor> inputs, std::span<const View> outputs) {
  const StopScope scope(state_->stop);
  return state_->run(inputs, outputs);
}
Status Session::run_views(std::span<const View> inputs, std::span<const View> outputs, std::vector<Tensor>* others) {
  const StopScope scope(state_->stop);
  return state_->run_views(inputs, outputs, others);
}
Status Session::run_resident(const ResidentRun& run) {
  const StopScope scope(state_->stop);
  return state_->run_resident(run);
}
void Session::stop_when(std::function<bool()> stop) { state_->stop = std::move(stop); }

}  // namespace peri::runtime
