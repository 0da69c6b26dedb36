// Arena: allocator of a shared region. Its state is outside the region, so that the other process cannot corrupt it;
// the lowest place that fits is taken, so that unused pages at the top can be released.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace peri::serve {

constexpr uint64_t kArenaStep = 64;  // bytes: offsets and sizes are multiples of it

class Arena {
 public:
  // Manages offsets [begin, end).
  Arena(uint64_t begin, uint64_t end);

  // None: no free part is large enough.
  std::optional<uint64_t> take(uint64_t bytes);
  // REQUIRES: `offset` was returned by take() and not given back yet.
  void give(uint64_t offset);
  uint64_t used() const { return used_; }
  uint64_t size() const { return end_ - begin_; }
  uint64_t room() const { return end_ - begin_ - used_; }
  // The range above everything in use since the last call and below everything ever used: its pages may be released.
  // Empty (first == second) if it is too small to be useful.
  std::pair<uint64_t, uint64_t> unused_top();

 private:
  const uint64_t begin_, end_;
  std::map<uint64_t, uint64_t> free_;   // offset and bytes, no two adjacent
  std::map<uint64_t, uint64_t> taken_;  // offset and bytes
  uint64_t used_ = 0;
  uint64_t touched_, recent_;  // ends of the ranges that have pages, and that were in use since unused_top()
};

}  // namespace peri::serve
