// A set of flat positions of one tensor, filled in any order and listed ascending: what an op's pull function collects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace peri::ops {

class PositionSet {
 public:
  explicit PositionSet(int64_t numel) : marked_(static_cast<std::size_t>(numel), 0) {}
  void add(int64_t at) { marked_[static_cast<std::size_t>(at)] = 1; }
  void add_range(int64_t begin, int64_t end, int64_t step = 1) {
    for (int64_t at = begin; at < end; at += step) marked_[static_cast<std::size_t>(at)] = 1;
  }
  bool contains(int64_t at) const { return marked_[static_cast<std::size_t>(at)] != 0; }
  void list(std::vector<int64_t>* out) const {
    out->clear();
    for (std::size_t k = 0; k < marked_.size(); ++k)
      if (marked_[k]) out->push_back(static_cast<int64_t>(k));
  }

 private:
  std::vector<char> marked_;
};

}  // namespace peri::ops
