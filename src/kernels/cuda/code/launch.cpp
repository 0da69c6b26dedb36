// What all launches share.
#include "kernels/cuda/code/launch.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/fault.hpp"

namespace peri::kernels::cuda {

namespace {
constexpr int kMinChip = 80;
}

Result<std::unique_ptr<Instance>> LaunchInstance::make(std::vector<KernelLaunch> launches, size_t workspace,
                                                       std::vector<Error> faults) {
  return std::unique_ptr<Instance>(std::make_unique<LaunchInstance>(std::move(launches), workspace, std::move(faults)));
}

Result<std::unique_ptr<Instance>> LaunchInstance::make(std::vector<KernelLaunch> launches, size_t workspace,
                                                       std::vector<Tensor> packed) {
  return std::unique_ptr<Instance>(std::make_unique<LaunchInstance>(std::move(launches), workspace, std::move(packed)));
}

void LaunchInstance::run_task(int, int64_t, const Args&) const {
  PERI_CHECK(false, "a kernel of a GPU has no tasks for the CPU");
}

Status check_gpu(const Target& target) {
  std::string chip;
  for (const std::string& isa : target.isas) {
    if (!isa.starts_with("sm_")) continue;
    if (std::atoi(isa.c_str() + 3) >= kMinChip) return Ok{};
    chip = isa;
  }
  if (!chip.empty()) return refused("its GPU is too old").expecting(format("sm_%d", kMinChip)).but_found(chip);
  return refused("the target has no GPU of NVIDIA's");
}

int multiprocessors(const Target& target) {
  constexpr int kOfALargeOne = 132;
  return target.kind == device::Kind::kCuda && target.threads > 0 ? target.threads : kOfALargeOne;
}

std::vector<Offer> plain_offer(const Problem& problem) {
  Offer o;
  o.inputs.resize(problem.graph->inputs.size());
  o.outputs.resize(problem.graph->outputs.size());
  return {std::move(o)};
}

int64_t blocks_for(int64_t elements, int threads) {
  return std::clamp<int64_t>((elements + threads - 1) / threads, 1, kMaxBlocks);
}

}  // namespace peri::kernels::cuda
