// Histogram: counts of times in ranges whose width is 1/32 of their value, so that any quantile is accurate to about 3
// % from a nanosecond to hours in one small array. Histograms can be added and subtracted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace peri::stats {

class Histogram {
 public:
  static constexpr int kBits = 5;  // ranges in each doubling: 32
  static constexpr int kRanges = (48 - kBits + 1) << kBits;

  void add(int64_t ns, uint64_t times = 1) {
    counts_[static_cast<size_t>(range_of(ns))] += times;
    count_ += times;
    sum_ += static_cast<double>(ns > 0 ? ns : 0) * static_cast<double>(times);
    if (ns > most_) most_ = ns;
  }
  void add(const Histogram& other);
  // REQUIRES: `earlier` is a former state of this one.
  void take(const Histogram& earlier);

  uint64_t count() const { return count_; }
  double mean() const { return count_ ? sum_ / static_cast<double>(count_) : 0; }
  int64_t most() const { return most_; }
  // The time that a share q (0 to 1) of all values does not exceed: the upper end of its range, at most most(). 0: no
  // values.
  int64_t quantile(double q) const;
  // Number of values up to `ns`, to the resolution of the ranges.
  uint64_t up_to(int64_t ns) const;
  uint64_t in(int range) const { return counts_[static_cast<size_t>(range)]; }

  static int range_of(int64_t ns);
  static int64_t end_of(int range);  // the largest value of a range

  // The histogram that a client with requests every `interval_ns` would have recorded: each longer value also counts
  // the requests that it delayed (G. Tene, HdrHistogram's correction of coordinated omission).
  Histogram corrected(int64_t interval_ns) const;

 private:
  std::array<uint64_t, kRanges> counts_{};
  uint64_t count_ = 0;
  double sum_ = 0;
  int64_t most_ = 0;
};

}  // namespace peri::stats
