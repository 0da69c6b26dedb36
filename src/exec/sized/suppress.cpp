// Candidates are taken from a heap, best first, so that only those are put in order that are looked at; where these are
// many, the rest is sorted by its digits.
#include "exec/sized/suppress.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "exec/sized/kept_boxes.hpp"

namespace peri::exec {

namespace {
Box box_of(const float* v, bool centred) {
  if (centred) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};  // x, y, width, height
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}
// A score and its place as one number: of two, the better one is larger; of equal scores that is the lower place.
uint64_t candidate(float score, int64_t place) {
  const uint32_t bits = std::bit_cast<uint32_t>(score == 0 ? 0.0F : score);
  return uint64_t{bits >> 31 != 0 ? ~bits : bits | 0x80000000U} << 32 | (UINT32_MAX - static_cast<uint32_t>(place));
}

// Candidates best first. Of many the first come from a heap, and the rest is sorted once so many were taken that the
// call is likely to look at all.
class Queue {
 public:
  explicit Queue(std::vector<uint64_t> all) : all_(std::move(all)), end_(all_.size()), heaped_(end_ / kHeaped) {
    if (heaped_ > 0) std::make_heap(all_.begin(), all_.end());
  }
  bool empty() const { return end_ == 0; }
  uint64_t pop() {
    if (heaped_ > 0) {
      std::pop_heap(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(end_));
      --heaped_;
    } else if (!sorted_) {
      all_.resize(end_);
      sort();
    }
    return all_[--end_];
  }

 private:
  // The share that is taken from the heap. Measured: benchmarks/results/2026-11-29_selection.md.
  static constexpr size_t kHeaped = 64;

  // By score, digit by digit from the last; equal scores keep their order. Once all digits are done the best is last.
  void sort() {
    sorted_ = true;
    if (all_.size() < kFew) {
      std::sort(all_.begin(), all_.end());
      return;
    }
    std::array<std::array<uint32_t, kValues>, kDigits> begins = {};
    for (const uint64_t c : all_)
      for (size_t d = 0; d < kDigits; ++d) ++begins[d][digit(c, d)];
    std::vector<uint64_t> other(all_.size());
    for (size_t d = 0; d < kDigits; ++d) {
      auto& begin = begins[d];
      if (begin[digit(all_[0], d)] == all_.size()) continue;
      uint32_t at = 0;
      for (uint32_t& b : begin) at += std::exchange(b, at);
      for (const uint64_t c : all_) other[begin[digit(c, d)]++] = c;
      all_.swap(other);
    }
  }
  static constexpr size_t kFew = 512;  // with fewer, counting the digits takes longer than the sort. Not varied
  static constexpr size_t kBits = 8;   // of a digit: its counts stay in the first cache. Not varied
  // What follows from it.
  static constexpr size_t kValues = size_t{1} << kBits, kDigits = 64 / kBits;
  static size_t digit(uint64_t c, size_t d) { return c >> (d * kBits) & (kValues - 1); }

  std::vector<uint64_t> all_;
  size_t end_, heaped_;
  bool sorted_ = false;
};

template <class T>
double number(const SelectionCall& c, size_t port, double fallback) {
  if (!c.node.in(port) || count_of(dims_at(c.node, port)) == 0) return fallback;
  return static_cast<double>(*static_cast<const T*>(c.in[port]));
}

}  // namespace

Status suppress(const SelectionCall& c) {
  const ir::Node& node = c.node;
  const std::vector<int64_t> dims = dims_at(node, 1);
  const int64_t classes = dims[1], count = dims[2];
  const auto* boxes = static_cast<const float*>(c.in[0]);
  const auto* scores = static_cast<const float*>(c.in[1]);
  const double most = number<int64_t>(c, 2, 0);
  const auto threshold = static_cast<float>(number<float>(c, 3, 0));
  if (!(threshold >= 0 && threshold <= 1))
    return invalid("iou_threshold is out of range").expecting("[0, 1]").but_found(std::to_string(threshold));
  if (count >= int64_t{UINT32_MAX}) return invalid("too many boxes").but_found(std::to_string(count));
  const double least = number<float>(c, 4, -INFINITY);
  const bool thresholded = node.in(4) && count_of(dims_at(node, 4)) > 0, centred = node.i("center_point_box") != 0;
  std::vector<std::vector<int64_t>> kept(static_cast<size_t>(dims[0] * classes));
  c.run.run_tasks(dims[0] * classes, [&](int64_t line, int) {
    const float* score = scores + line * count;
    const float* box = boxes + line / classes * count * 4;
    std::vector<uint64_t> order;
    order.reserve(static_cast<size_t>(count));
    for (int64_t k = 0; k < count; ++k)
      if (thresholded ? static_cast<double>(score[k]) > least : score[k] == score[k])
        order.push_back(candidate(score[k], k));
    Queue queue(std::move(order));
    std::vector<int64_t>& own = kept[static_cast<size_t>(line)];
    KeptBoxes chosen;
    while (!queue.empty() && static_cast<double>(own.size()) < most) {
      const auto k = static_cast<int64_t>(UINT32_MAX - static_cast<uint32_t>(queue.pop()));
      const Box b = box_of(box + k * 4, centred);
      if (chosen.any_over(b, threshold)) continue;
      chosen.add(b);
      own.push_back(k);
    }
  });
  int64_t rows = 0;
  for (const auto& own : kept) rows += static_cast<int64_t>(own.size());
  PERI_ASSIGN(void* const to, c.result(0, std::array<int64_t, 2>{rows, 3}));
  int64_t* y = static_cast<int64_t*>(to);
  for (size_t line = 0; line < kept.size(); ++line)
    for (const int64_t k : kept[line]) {
      *y++ = static_cast<int64_t>(line) / classes;
      *y++ = static_cast<int64_t>(line) % classes;
      *y++ = k;
    }
  return Ok{};
}

}  // namespace peri::exec
