// What this machine sustains: fused multiply-adds, copies and loads, measured in a moment; and the floor of work at
// these rates.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace peri::bench {

struct Peaks {
  int threads = 1;
  double fma_gflops = 0;  // float32, two flops a multiply-add, widest vectors the machine has
  std::vector<std::pair<int64_t, double>> copy_gbs;  // working set in bytes -> GB/s, bytes read plus bytes written
  std::vector<std::pair<int64_t, double>>
      read_gbs;  // the same of loads alone: what a product with a large weight can reach
  // Rate for a working set: the better of both at the largest measured one not above it, so that a floor is never too
  // high.
  double rate_gbs(double bytes) const;
};

// Best of several tries; takes about `seconds`. `threads` work at once, each on its own part.
Peaks measure_peaks(int threads, double seconds);

// Time in ms no step can be below at these rates: the dearer of arithmetic and movement. 0 if there is neither.
double floor_ms(const Peaks& peaks, double flops, double bytes);

}  // namespace peri::bench
