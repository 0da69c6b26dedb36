// Arena: who has which part of a shared region. Kept outside the region, so that nobody who writes there can harm it;
// the lowest place that fits is taken, so that what was used once can be given back from the top.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace peri::serve {

constexpr uint64_t kArenaStep = 64;  // bytes: offsets and sizes are multiples of it

class Arena {
 public:
  // Offsets [begin, end) are handed out.
  Arena(uint64_t begin, uint64_t end);

  // None: there is no such place.
  std::optional<uint64_t> take(uint64_t bytes);
  // REQUIRES: `offset` was taken and not given yet.
  void give(uint64_t offset);
  uint64_t used() const { return used_; }
  uint64_t size() const { return end_ - begin_; }
  uint64_t room() const { return end_ - begin_ - used_; }
  // The part above all that was in use since the last call and below what was ever used: its pages may go. Empty
  // (first == second) where nothing is worth it.
  std::pair<uint64_t, uint64_t> unused_top();

 private:
  const uint64_t begin_, end_;
  std::map<uint64_t, uint64_t> free_;   // offset and bytes, no two beside each other
  std::map<uint64_t, uint64_t> taken_;  // likewise
  uint64_t used_ = 0;
  uint64_t touched_, recent_;  // ends: of what has pages, of what was in use since unused_top()
};

}  // namespace peri::serve
