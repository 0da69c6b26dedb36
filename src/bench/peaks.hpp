// Sustained rates of this machine: multiply-adds of floats and of bytes, copies, loads, measured briefly. Rates that it
// can never exceed are in ceilings.hpp.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/json.hpp"

namespace peri::bench {

struct Peaks {
  int threads = 1;
  double fma_gflops = 0;  // float32, two flops per multiply-add, widest vectors of the machine
  double byte_gops = 0;   // products of 8-bit integers, two operations per multiply-add; 0: unknown
  std::vector<std::pair<int64_t, double>> copy_gbs;  // working set in bytes -> GB/s, bytes read plus bytes written
  std::vector<std::pair<int64_t, double>>
      read_gbs;  // the same for loads alone: the limit of a product with a large weight
  // Rate for a working set: the higher of both at the largest measured one not above it.
  double rate_gbs(double bytes) const;
};

// Best of several tries; takes about `seconds`. `threads` work at once, each on its own part; at most the CPUs that
// this process may use, as recorded in Peaks::threads.
Peaks measure_peaks(int threads, double seconds);

// Time in ms of work at these rates: that of arithmetic or of data movement, whichever is longer. 0 if there is
// neither. `byte_flops`: those of `flops` that are products of 8-bit integers.
double sustained_ms(const Peaks& peaks, double flops, double byte_flops, double bytes);

// The current clock, from dependent integer products.
double measured_clock_ghz();

void write_peaks(JsonWriter& w, const Peaks& peaks);  // an object
Result<Peaks> read_peaks(const Json& json);

}  // namespace peri::bench
