// There are few free parts if blocks are released in about the order of requests, so that linear searches are short.
#include "serve/worker/arena.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace peri::serve {

constexpr uint64_t kWorthTrimming = uint64_t{1} << 20;

Arena::Arena(uint64_t begin, uint64_t end) : begin_(begin), end_(end), touched_(begin), recent_(begin) {
  if (end > begin) free_.emplace(begin, end - begin);
}

std::optional<uint64_t> Arena::take(uint64_t bytes) {
  if (bytes > end_ - begin_) return std::nullopt;
  const uint64_t need = std::max(kArenaStep, (bytes + kArenaStep - 1) / kArenaStep * kArenaStep);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < need) continue;
    const uint64_t at = it->first, left = it->second - need;
    free_.erase(it);
    if (left > 0) free_.emplace(at + need, left);
    taken_.emplace(at, need);
    used_ += need;
    recent_ = std::max(recent_, at + need);
    touched_ = std::max(touched_, recent_);
    return at;
  }
  return std::nullopt;
}

void Arena::give(uint64_t offset) {
  const auto it = taken_.find(offset);
  PERI_CHECK(it != taken_.end(), "a block that was not taken is given back");
  uint64_t at = offset, bytes = it->second;
  used_ -= bytes;
  taken_.erase(it);
  auto next = free_.lower_bound(at);
  if (next != free_.end() && next->first == at + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == at) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(at, bytes);
}

std::pair<uint64_t, uint64_t> Arena::unused_top() {
  const uint64_t now = taken_.empty() ? begin_ : taken_.rbegin()->first + taken_.rbegin()->second;
  const uint64_t low = (std::max(recent_, now) + 4095) / 4096 * 4096;
  recent_ = now;
  if (touched_ < low + kWorthTrimming) return {low, low};
  const std::pair<uint64_t, uint64_t> out{low, touched_};
  touched_ = low;
  return out;
}

}  // namespace peri::serve
