// Below 64 each value has a range of its own; above, the bits behind the leading one number the ranges of a doubling.
#include "stats/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace peri::stats {

int Histogram::range_of(int64_t ns) {
  const auto v = static_cast<uint64_t>(std::max<int64_t>(ns, 0));
  const int shift = std::max(0, static_cast<int>(std::bit_width(v)) - 1 - kBits);
  return std::min(kRanges - 1, (shift << kBits) + static_cast<int>(v >> shift));
}

int64_t Histogram::end_of(int range) {
  const int shift = std::max(0, (range >> kBits) - 1);
  const int64_t head = range - (shift << kBits);
  return ((head + 1) << shift) - 1;
}

void Histogram::add(const Histogram& other) {
  for (size_t k = 0; k < counts_.size(); ++k) counts_[k] += other.counts_[k];
  count_ += other.count_;
  sum_ += other.sum_;
  most_ = std::max(most_, other.most_);
}

void Histogram::take(const Histogram& earlier) {
  int last = -1;
  for (size_t k = 0; k < counts_.size(); ++k) {
    counts_[k] -= std::min(counts_[k], earlier.counts_[k]);
    if (counts_[k]) last = static_cast<int>(k);
  }
  count_ -= std::min(count_, earlier.count_);
  sum_ = std::max(0.0, sum_ - earlier.sum_);
  most_ = last < 0 ? 0 : std::min(most_, end_of(last));
}

int64_t Histogram::quantile(double q) const {
  if (count_ == 0) return 0;
  const auto wanted =
      std::clamp<uint64_t>(static_cast<uint64_t>(std::ceil(q * static_cast<double>(count_))), 1, count_);
  uint64_t seen = 0;
  for (int k = 0; k < kRanges; ++k) {
    seen += counts_[static_cast<size_t>(k)];
    if (seen >= wanted) return std::min(end_of(k), most_);
  }
  return most_;
}

uint64_t Histogram::up_to(int64_t ns) const {
  uint64_t seen = 0;
  for (int k = 0; k <= range_of(ns); ++k) seen += counts_[static_cast<size_t>(k)];
  return seen;
}

Histogram Histogram::corrected(int64_t interval_ns) const {
  Histogram out = *this;
  if (interval_ns <= 0) return out;
  constexpr int64_t kMaxOfOne = 100000;  // added for one value: a stall of hours is as bad at a hundred thousand
  for (int k = 0; k < kRanges; ++k) {
    const uint64_t times = counts_[static_cast<size_t>(k)];
    if (times == 0) continue;
    const int64_t value = std::min(end_of(k), most_);
    int64_t added = 0;
    for (int64_t missing = value - interval_ns; missing >= interval_ns && added < kMaxOfOne; missing -= interval_ns) {
      out.add(missing, times);
      ++added;
    }
  }
  return out;
}

}  // namespace peri::stats
