// Cells are made for the boxes kept by then, and again whenever these are twice as many.
#include "exec/sized/kept_boxes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace peri::exec {

namespace {
float area_of(const Box& b) { return (b.y1 - b.y0) * (b.x1 - b.x0); }
bool finite(const Box& b) {
  return std::isfinite(b.y0) && std::isfinite(b.x0) && std::isfinite(b.y1) && std::isfinite(b.x1);
}

// Of the finite ones, along one axis: where they begin, how far they reach, how long one is in the mean.
struct Spread {
  double least = INFINITY, most = -INFINITY, lengths = 0;
  int64_t count = 0;
  void add(float begin, float end) {
    least = std::min(least, static_cast<double>(begin));
    most = std::max(most, static_cast<double>(end));
    lengths += std::max(static_cast<double>(end) - begin, 0.0);
    ++count;
  }
  // Of such boxes side by side.
  double room() const {
    const double mean = lengths / static_cast<double>(std::max<int64_t>(count, 1));
    return count > 0 && mean > 0 ? (most - least) / mean : 0;
  }
};
}  // namespace

void BoxList::add(const Box& b) {
  const size_t lane = count_++ % kGroup;
  if (lane == 0) {
    const Floats none = {}, beyond = none + INFINITY;
    groups_.push_back({beyond, beyond, -beyond, -beyond, none});
  }
  Group& g = groups_.back();
  g.y0[lane] = b.y0;
  g.x0[lane] = b.x0;
  g.y1[lane] = b.y1;
  g.x1[lane] = b.x1;
  g.area[lane] = area_of(b);
}

bool BoxList::any_over(const Box& b, float threshold) const {
  const Floats y0 = Floats{} + b.y0, x0 = Floats{} + b.x0, y1 = Floats{} + b.y1, x1 = Floats{} + b.x1;
  const float own = area_of(b);
  for (const Group& g : groups_) {
    const Floats top = g.y0 < y0 ? y0 : g.y0, left = g.x0 < x0 ? x0 : g.x0, bottom = y1 < g.y1 ? y1 : g.y1,
                 right = x1 < g.x1 ? x1 : g.x1;
    const Floats height = bottom - top, width = right - left, both = height * width, either = g.area + own - both;
    const auto over = (height > 0) & (width > 0) & (either > 0) & (both / either > threshold);
    static_assert(sizeof(over) == 2 * sizeof(uint64_t));
    uint64_t halves[2];
    std::memcpy(halves, &over, sizeof(over));
    if ((halves[0] | halves[1]) != 0) return true;
  }
  return false;
}

void KeptBoxes::add(const Box& b) {
  kept_.push_back(b);
  if (kept_.size() == dense_) {
    dense_ *= 2;
    make_cells();
  } else {
    place(b);
  }
}

bool KeptBoxes::any_over(const Box& b, float threshold) const {
  if (everywhere_.any_over(b, threshold)) return true;
  if (cells_.empty()) return false;
  Range range{0, static_cast<int64_t>(cells_.size()) - 1};
  range_of(b, &range);
  for (int64_t k = range.first; k <= range.last; ++k)
    if (cells_[static_cast<size_t>(k)].any_over(b, threshold)) return true;
  return false;
}

bool KeptBoxes::range_of(const Box& b, Range* range) const {
  if (!finite(b)) return false;
  const auto last = static_cast<float>(cells_.size()) - 1;
  const auto cell = [&](float v) { return static_cast<int64_t>(std::clamp((v - least_) * scale_, 0.0F, last)); };
  *range = {cell(by_x_ ? b.x0 : b.y0), cell(by_x_ ? b.x1 : b.y1)};
  return true;
}

void KeptBoxes::place(const Box& b) {
  Range range{};
  if (cells_.empty() || !range_of(b, &range) || range.last - range.first >= kSpread) {
    everywhere_.add(b);
    return;
  }
  for (int64_t k = range.first; k <= range.last; ++k) cells_[static_cast<size_t>(k)].add(b);
}

void KeptBoxes::make_cells() {
  Spread x, y;
  for (const Box& b : kept_) {
    if (!finite(b)) continue;
    x.add(b.x0, b.x1);
    y.add(b.y0, b.y1);
  }
  by_x_ = x.room() > y.room();
  const Spread& along = by_x_ ? x : y;
  const auto count = static_cast<int64_t>(std::min(along.room(), static_cast<double>(kMaxCells)));
  everywhere_ = {};
  cells_.clear();
  least_ = static_cast<float>(along.least);
  scale_ = static_cast<float>(static_cast<double>(count) / (along.most - along.least));
  // A scale or a length beyond what float32 has: all stay in one list.
  if (count >= kMinCells && std::isfinite(least_) && std::isfinite(scale_) && scale_ > 0)
    cells_.resize(static_cast<size_t>(count));
  for (const Box& b : kept_) place(b);
}

}  // namespace peri::exec
