// The boxes that non-maximum suppression has selected, to compare the next candidate with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace peri::exec {

struct Box {
  float y0, x0, y1, x1;
};

// Boxes in groups by coordinate, so that one box is compared with a group at once.
class BoxList {
 public:
  void add(const Box& b);
  // Whether `b` overlaps one of them by more than `threshold` of the area of their union, in float32, with the NaN
  // rules of std::min and std::max.
  bool any_over(const Box& b, float threshold) const;

 private:
  // A vector of the instructions that every machine has. The last group is filled with boxes that overlap none.
  static constexpr size_t kGroup = 4;
  typedef float Floats __attribute__((vector_size(kGroup * sizeof(float))));
  struct Group {
    Floats y0, x0, y1, x1, area;
  };
  std::vector<Group> groups_;
  size_t count_ = 0;
};

// Boxes overlap only where their intervals on either axis share a point. Many boxes are sorted into cells along one
// axis, those that their intervals intersect, and a candidate is compared with the boxes of its own cells: with the
// classes of one call separated by an offset, or small objects all over an image, those are few. The cell index is
// monotonic in the coordinate, so intervals that share a point share a cell. A box of many cells, or with a coordinate
// that is not finite, is compared with every candidate.
class KeptBoxes {
 public:
  void add(const Box& b);
  bool any_over(const Box& b, float threshold) const;

 private:
  // Rest on: benchmarks/results/2026-11-23_kept_boxes.md.
  static constexpr size_t kDense = 256;  // a shorter list is scanned in less time than cells are made
  static constexpr int64_t kMinCells = 8, kMaxCells = 8192;  // per axis: with fewer a list is as fast
  static constexpr int64_t kSpread = 8;  // largest number of cells for a box that is stored in each of them

  struct Range {
    int64_t first, last;
  };
  void make_cells();
  void place(const Box& b);
  bool range_of(const Box& b, Range* range) const;  // false: not finite

  size_t dense_ = kDense;  // number of boxes at which cells are made, again after each doubling
  std::vector<Box> kept_;
  BoxList everywhere_;  // compared with every candidate; without cells all of them
  std::vector<BoxList> cells_;
  bool by_x_ = true;
  float least_ = 0, scale_ = 0;
};

}  // namespace peri::exec
