// What all launches share.
#include "kernels/cuda/code/launch.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/fault.hpp"

namespace peri::kernels::cuda {

namespace {
constexpr int kMinChip = 80;  // the first with cp.async and mma of bfloat16, which the code is written with

// 90 of "sm_90a"; 0 of what is no chip.
int chip_of(std::string_view isa) {
  int out = 0;
  if (!isa.starts_with("sm_")) return 0;
  const auto [end, code] = std::from_chars(isa.data() + 3, isa.data() + isa.size(), out);
  return code == std::errc() ? out : 0;
}

// The newest chip that the target names; 0: none.
int chip_of(const Target& target) {
  int out = 0;
  for (const std::string& isa : target.isas) out = std::max(out, chip_of(isa));
  return out;
}

Needs needs_of_launches(const std::vector<KernelLaunch>& launches, size_t workspace) {
  Needs out{workspace, 0, {}, {}};
  for (const KernelLaunch& l : launches)
    out.launches.push_back(
        {l.entry, {l.blocks, l.more_blocks[0], l.more_blocks[1]}, l.threads, l.shared_bytes, l.cluster});
  return out;
}
}  // namespace

Result<Tensor> PackedWeight::made(std::span<const Tensor> inputs) const {
  for (const size_t k : {input, make_of_two ? second : input})
    if (k >= inputs.size() || !inputs[k].defined()) return invalid("input %zu is not a weight", k);
  return make_of_two ? make_of_two(inputs[input], inputs[second]) : make(inputs[input]);
}

LaunchInstance::LaunchInstance(std::vector<KernelLaunch> launches, size_t workspace, std::vector<Error> faults)
    : Instance(needs_of_launches(launches, workspace)), launches_(std::move(launches)), faults_(std::move(faults)) {}

LaunchInstance::LaunchInstance(std::vector<KernelLaunch> launches, size_t workspace, std::vector<PackedWeight> packed)
    : Instance(needs_of_launches(launches, workspace)), launches_(std::move(launches)), packed_(std::move(packed)) {}

LaunchInstance::LaunchInstance(std::vector<LibraryCall> calls) : Instance(Needs()), calls_(std::move(calls)) {}

Result<std::unique_ptr<Instance>> LaunchInstance::make(std::vector<KernelLaunch> launches, size_t workspace,
                                                       std::vector<Error> faults) {
  return std::unique_ptr<Instance>(std::make_unique<LaunchInstance>(std::move(launches), workspace, std::move(faults)));
}

Result<std::unique_ptr<Instance>> LaunchInstance::make(std::vector<KernelLaunch> launches, size_t workspace,
                                                       std::vector<PackedWeight> packed) {
  return std::unique_ptr<Instance>(std::make_unique<LaunchInstance>(std::move(launches), workspace, std::move(packed)));
}

void LaunchInstance::run_task(int, int64_t, const Args&) const {
  PERI_CHECK(false, "a kernel of a GPU has no tasks for the CPU");
}

Status check_gpu(const Target& target) {
  std::string chip;
  for (const std::string& isa : target.isas) {
    if (!isa.starts_with("sm_")) continue;
    if (chip_of(isa) >= kMinChip) return Ok{};
    chip = isa;
  }
  if (!chip.empty()) return refused("its GPU is too old").expecting(format("sm_%d", kMinChip)).but_found(chip);
  return refused("the target has no GPU of NVIDIA's");
}

// Source: CUDA C++ Programming Guide 13.0, technical specifications by compute capability; of float64 NVIDIA's data
// sheets of A100 (19.5 TFLOP/s, as float32) and H200 (67, as float32).
GpuLimits limits_of(const Target& target) {
  constexpr int kOfALargeOne = 132;  // of an H200
  constexpr int64_t kSmall = 99 << 10, kAmpere = 163 << 10, kLarge = 227 << 10;
  constexpr int kWithClusters = 90;
  const int chip = chip_of(target);
  const bool ampere = chip == 80 || chip == 87, large = chip >= 90 && chip < 120;
  GpuLimits out{target.multiprocessors,
                large    ? kLarge
                : ampere ? kAmpere
                         : kSmall,
                large || chip == 80 ? 2048 : 1536, chip >= kWithClusters, chip == 80 || chip == 90};
  for (const device::Cache& c : target.caches)
    if (c.name == device::kSharedOfBlock) out.shared_bytes = c.bytes;
  if (out.multiprocessors == 0)
    out.multiprocessors = target.kind == device::Kind::kCuda && target.threads > 1 ? target.threads : kOfALargeOne;
  return out;
}

double moving_ms(size_t launches, double bytes) {
  constexpr double kLaunchNs = 2000, kBytesPerNs = 2000;  // round, not fitted: see limits_of()
  return (kLaunchNs * static_cast<double>(launches) + bytes / kBytesPerNs) / 1e6;
}

std::vector<Offer> plain_offer(const Problem& problem) {
  Offer o;
  o.inputs.resize(problem.graph->inputs.size());
  o.outputs.resize(problem.graph->outputs.size());
  return {std::move(o)};
}

Tunable turns_tunable(std::string_view meaning) { return {"turns", meaning, {2, 4, 8}}; }

int64_t blocks_in_turns(int64_t blocks, int64_t turns) {
  return turns <= 1 ? blocks : std::max<int64_t>(1, (blocks + turns - 1) / turns);
}

int64_t blocks_for(int64_t elements, int threads) {
  return std::clamp<int64_t>((elements + threads - 1) / threads, 1, kMaxBlocks);
}

}  // namespace peri::kernels::cuda
