// Rates of a multiprocessor in one cycle, above those of every chip so far; memory by its clock and width.
#include "bench/gpu_ceilings.hpp"

#include "device/cuda/driver.hpp"

namespace peri::bench {

namespace {
// NVIDIA H100 Tensor Core GPU Architecture (2022), tables 1 and 2: 4096 operations of dense 16-bit products, 2048 of
// TF32; Blackwell's datacenter chips have twice that.
constexpr double kNarrowFlops = 16384, kFlops = 4096;
// Of shared memory and the first cache a line a cycle each way; half of one from the second cache.
constexpr double kFirstBytes = 512, kSecondBytes = 128;
constexpr int64_t kNearBytes = 512 << 10;  // registers, shared memory and the first cache
}  // namespace

Ceilings gpu_ceilings(const device::cuda::GpuFacts& gpu) {
  Ceilings c;
  c.threads = gpu.multiprocessors > 0 ? gpu.multiprocessors : 1;
  c.clock_ghz = gpu.clock_khz > 0 ? gpu.clock_khz * 1e-6 : 3;
  c.clock_from = gpu.clock_khz > 0 ? "the driver" : "no GPU runs faster";
  c.flops_per_cycle = kFlops;
  c.narrow_flops_per_cycle = kNarrowFlops;
  // Two transfers a cycle; where the driver does not say, as much as from the second cache.
  const double memory = 2e3 * gpu.memory_clock_khz * gpu.bus_bits / 8 / (c.clock_ghz * 1e9 * c.threads);
  c.levels = {{{kFirstBytes, 0},
               {kSecondBytes, kNearBytes},
               {memory > 0 ? memory : kSecondBytes, kNearBytes + gpu.l2_bytes / c.threads}}};
  c.unit = "multiprocessor";
  return c;
}

}  // namespace peri::bench
