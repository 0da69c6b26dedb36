// The floor of a GPU's step is near what its chip can do, and a chip that is not known has no floor above the truth.
#include "bench/gpu_ceilings.hpp"

#include <gtest/gtest.h>

#include "device/cuda/driver.hpp"

namespace peri::bench {
namespace {

device::cuda::GpuFacts h200() {
  device::cuda::GpuFacts gpu;
  gpu.major = 9;
  gpu.multiprocessors = 132;
  gpu.clock_khz = 1980000;
  gpu.memory_clock_khz = 3201000;
  gpu.bus_bits = 6144;
  gpu.l2_bytes = 60 << 20;
  return gpu;
}

TEST(GpuCeilings, HopperDoes1070TeraflopsIn16BitsAnd4900GigabytesASecond) {
  const Ceilings c = gpu_ceilings(h200());
  EXPECT_NEAR(c.gflops(true) * 1e-3, 1070, 10);  // 4,096 x 132 x 1.98 GHz
  EXPECT_NEAR(c.gflops(false) * 1e-3, 535, 10);  // TF32
  EXPECT_NEAR(c.floor_ms({.flops = 38.65e9, .narrow = true, .bytes = 16e6}), 0.0361, 0.001);
  EXPECT_NEAR(c.floor_ms({.flops = 1e6, .narrow = true, .bytes = 4917e6}), 1.0, 0.05);
}

TEST(GpuCeilings, AnUnknownChipIsNotHeldToTheRatesOfAKnownOne) {
  auto gpu = h200();
  const Ceilings known = gpu_ceilings(gpu);
  gpu.major = 13;
  const Ceilings unknown = gpu_ceilings(gpu);
  EXPECT_GT(unknown.gflops(true), known.gflops(true));
  EXPECT_GT(unknown.gflops(false), known.gflops(false));
}

}  // namespace
}  // namespace peri::bench
