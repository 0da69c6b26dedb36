// Histogram: counts of times in ranges whose width is a 32nd of their value, so that any quantile is right to about 3 %
// from a nanosecond to hours in one small array. Histograms of one kind add up and may be taken from each other.
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
  // REQUIRES: `earlier` is what this one was before.
  void take(const Histogram& earlier);

  uint64_t count() const { return count_; }
  double mean() const { return count_ ? sum_ / static_cast<double>(count_) : 0; }
  int64_t most() const { return most_; }
  // The time that q of all values (0 to 1) do not exceed: the upper end of its range, never above most(). 0: no values.
  int64_t quantile(double q) const;
  // Values up to `ns`, as far as ranges tell.
  uint64_t up_to(int64_t ns) const;
  uint64_t in(int range) const { return counts_[static_cast<size_t>(range)]; }

  static int range_of(int64_t ns);
  static int64_t end_of(int range);  // the largest value of a range

  // What a client that had asked every `interval_ns` would have seen: each longer value stands for those it kept back
  // (G. Tene, HdrHistogram's correction of coordinated omission).
  Histogram corrected(int64_t interval_ns) const;

 private:
  std::array<uint64_t, kRanges> counts_{};
  uint64_t count_ = 0;
  double sum_ = 0;
  int64_t most_ = 0;
};

}  // namespace peri::stats
