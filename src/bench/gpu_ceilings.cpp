// Rates of a multiprocessor in one cycle, by the chip's compute capability; memory by its clock and width.
#include "bench/gpu_ceilings.hpp"

#include "device/cuda/driver.hpp"

namespace peri::bench {

namespace {
// Operations of a multiprocessor in a cycle, dense: in float32 (TF32 of its tensor cores where that is more), and of 16
// bits (with float16 sums where those are faster). NVIDIA's architecture papers: A100 (2020), table 1; GA102 (2021) and
// Ada (2022), appendix A; H100 (2022), table 2; Blackwell datacenter (2024) and RTX Blackwell (2025).
struct Rate {
  int major, minor;
  double flops, narrow_flops;
};
constexpr Rate kRates[] = {{8, 0, 1024, 2048},  {8, 6, 256, 1024},  {8, 7, 512, 2048},
                           {8, 9, 256, 1024},   {9, 0, 2048, 4096}, {10, 0, 4096, 8192},
                           {10, 3, 4096, 8192}, {12, 0, 256, 1024}, {12, 1, 256, 1024}};
constexpr Rate kUnknownChip = {0, 0, 8192, 32768};  // of a chip later than those: no floor is too high
// Of shared memory and the first cache a line a cycle each way; half of one from the second cache.
constexpr double kFirstBytes = 512, kSecondBytes = 128;
constexpr int64_t kNearBytes = 512 << 10;  // registers, shared memory and the first cache

Rate rate_of(const device::cuda::GpuFacts& gpu) {
  for (const Rate& r : kRates)
    if (r.major == gpu.major && r.minor == gpu.minor) return r;
  return kUnknownChip;
}
}  // namespace

Ceilings gpu_ceilings(const device::cuda::GpuFacts& gpu) {
  Ceilings c;
  c.threads = gpu.multiprocessors > 0 ? gpu.multiprocessors : 1;
  c.clock_ghz = gpu.clock_khz > 0 ? gpu.clock_khz * 1e-6 : 3;
  c.clock_from = gpu.clock_khz > 0 ? "the driver" : "no GPU runs faster";
  const Rate rate = rate_of(gpu);
  c.flops_per_cycle = rate.flops;
  c.narrow_flops_per_cycle = rate.narrow_flops;
  // Two transfers a cycle; where the driver does not say, as much as from the second cache.
  const double memory = 2e3 * gpu.memory_clock_khz * gpu.bus_bits / 8 / (c.clock_ghz * 1e9 * c.threads);
  c.levels = {{{kFirstBytes, 0},
               {kSecondBytes, kNearBytes},
               {memory > 0 ? memory : kSecondBytes, kNearBytes + gpu.l2_bytes / c.threads}}};
  c.unit = "multiprocessor";
  return c;
}

}  // namespace peri::bench
