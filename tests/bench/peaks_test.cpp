// A time at sustained rates rests on the best one known for its working set, and every peak of this machine is
// measured.
#include <algorithm>

#include "bench/peaks.hpp"

#include <gtest/gtest.h>

#include "bench/ceilings.hpp"
#include "device/load.hpp"
#include "device/target.hpp"

namespace peri::bench {
namespace {

Peaks example() {
  Peaks p;
  p.fma_gflops = 100;
  p.copy_gbs = {{1000, 50}, {1000000, 10}};
  p.read_gbs = {{1000, 40}, {1000000, 30}};
  return p;
}

TEST(Peaks, TheRateIsTheBetterOneOfTheSetBelow) {
  EXPECT_EQ(example().rate_gbs(10), 50);      // smaller than any: the smallest
  EXPECT_EQ(example().rate_gbs(999999), 50);  // a set just below the larger one is as fast as the smaller
  EXPECT_EQ(example().rate_gbs(2e6), 30);     // loads alone are faster there than copies
  EXPECT_EQ(Peaks().rate_gbs(1), 0);
}

TEST(Peaks, TheTimeIsTheLongerOfArithmeticAndMovement) {
  EXPECT_DOUBLE_EQ(sustained_ms(example(), 1e9, 0, 10), 10);
  EXPECT_DOUBLE_EQ(sustained_ms(example(), 10, 0, 3e9), 100);
  EXPECT_EQ(sustained_ms(Peaks(), 1e9, 0, 1e9), 0);
}

TEST(Peaks, ProductsOfBytesHaveTheirOwnRate) {
  Peaks p = example();
  EXPECT_DOUBLE_EQ(sustained_ms(p, 1e9, 5e8, 10), 10) << "not known: that of floats";
  p.byte_gops = 400;
  EXPECT_DOUBLE_EQ(sustained_ms(p, 1e9, 1e9, 10), 2.5);
  EXPECT_DOUBLE_EQ(sustained_ms(p, 1e9, 5e8, 10), 6.25);
}

TEST(Peaks, AreReadAsTheyWereWritten) {
  Peaks p = example();
  p.byte_gops = 400;
  JsonWriter w;
  write_peaks(w, p);
  const auto back = read_peaks(*parse_json(w.take()));
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(back->fma_gflops, p.fma_gflops);
  EXPECT_EQ(back->byte_gops, 400);
  EXPECT_EQ(back->copy_gbs, p.copy_gbs);
  EXPECT_EQ(back->read_gbs, p.read_gbs);
}

TEST(Peaks, EveryPeakIsMeasured) {
  Peaks p = measure_peaks(2, 0.05);
  // What else runs on the machine may have met the bytes alone.
  for (int more = 0; more < 10 && p.byte_gops <= p.fma_gflops; ++more) p = measure_peaks(2, 0.05);
  EXPECT_EQ(p.threads, std::min(2, device::cpu_limits().usable()));
  ASSERT_EQ(p.copy_gbs.size(), p.read_gbs.size());
  if (device::this_cpu().has("avx2")) {
    EXPECT_GT(p.byte_gops, p.fma_gflops) << "a byte is a quarter of a float";
    EXPECT_LT(p.byte_gops, machine_ceilings(2).gflops(true));
  }
  for (size_t k = 0; k < p.copy_gbs.size(); ++k) {
    EXPECT_EQ(p.copy_gbs[k].first, p.read_gbs[k].first);
    EXPECT_GT(p.copy_gbs[k].second, 0);
    EXPECT_GT(p.rate_gbs(static_cast<double>(p.copy_gbs[k].first)), 0);
  }
}

// Threads that take turns on a CPU would each be timed in their own slice, and their rates added.
TEST(Peaks, NoMoreThreadsThanCpusAreMeasured) {
  const int usable = device::cpu_limits().usable();
  EXPECT_EQ(measure_peaks(64 * usable, 0.01).threads, usable);
  EXPECT_EQ(machine_ceilings(64 * usable).threads, usable);
  EXPECT_DOUBLE_EQ(machine_ceilings(64 * usable).gflops(false) / machine_ceilings(64 * usable).clock_ghz,
                   machine_ceilings(usable).gflops(false) / machine_ceilings(usable).clock_ghz);
}

}  // namespace
}  // namespace peri::bench
