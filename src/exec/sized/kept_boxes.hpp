// The boxes that non-maximum suppression has selected, to compare the next candidate with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace peri::exec {

struct Box {
  float y0, x0, y1, x1;
};

// Boxes by coordinate, so that one is held against many at once.
struct BoxList {
  std::vector<float> y0, x0, y1, x1, area;
  void add(const Box& b);
  // Whether `b` overlaps one of them by more than `threshold` of what the two cover, in float32, NaN as std::min and
  // std::max have it.
  bool any_over(const Box& b, float threshold) const;
};

// Boxes overlap only where their intervals on either axis share a point. Of many boxes each lies in cells along one
// axis, those that its interval meets, and a candidate is held against the boxes of its own cells: with the classes of
// one call moved apart by an offset, or small objects all over an image, those are few. The cell of a point never falls
// as the point grows, so intervals that share a point share a cell. A box of many cells, or with a coordinate that is
// not finite, is held against every candidate.
class KeptBoxes {
 public:
  void add(const Box& b);
  bool any_over(const Box& b, float threshold) const;

 private:
  // Rest on: benchmarks/results/2026-11-23_kept_boxes.md.
  static constexpr size_t kDense = 256;  // a list of fewer is scanned in less time than cells are made
  static constexpr int64_t kMinCells = 8, kMaxCells = 8192;  // of an axis: with fewer a list is as fast
  static constexpr int64_t kSpread = 8;                      // cells of a box that is stored in each of them

  struct Range {
    int64_t first, last;
  };
  void make_cells();
  void place(const Box& b);
  bool range_of(const Box& b, Range* range) const;  // false: not finite

  size_t dense_ = kDense;  // boxes at which cells are made, again after each doubling
  std::vector<Box> kept_;
  BoxList everywhere_;  // held against every candidate; without cells all of them
  std::vector<BoxList> cells_;
  bool by_x_ = true;
  float least_ = 0, scale_ = 0;
};

}  // namespace peri::exec
