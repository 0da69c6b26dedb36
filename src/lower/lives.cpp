// Blocks are copied when they are first changed; the hash is the sum of those of all that is held.
#include "lower/lives.hpp"

#include <algorithm>

#include "base/rng.hpp"

namespace peri::lower {

namespace {
uint64_t hash_of(int value, int made, uint64_t places) {
  const auto both = static_cast<uint64_t>(static_cast<uint32_t>(value)) << 32 | static_cast<uint32_t>(made);
  return Rng(Rng(both).next() ^ places).next();
}
}  // namespace

size_t Lives::find(int number) const {
  const auto it = std::lower_bound(blocks_.begin(), blocks_.end(), number,
                                   [](const std::shared_ptr<Block>& b, int n) { return b->number < n; });
  return static_cast<size_t>(it - blocks_.begin());
}

Lives::Block& Lives::own(size_t at) {
  if (blocks_[at].use_count() > 1) blocks_[at] = std::make_shared<Block>(*blocks_[at]);
  return *blocks_[at];
}

uint64_t Lives::at(int value, int* made) const {
  const size_t at = find(value / kBlock);
  if (!there(at, value / kBlock)) return 0;
  const Live& l = blocks_[at]->live[static_cast<size_t>(value % kBlock)];
  if (l.places != 0) *made = l.made;
  return l.places;
}

void Lives::put(int value, int made, uint64_t places) {
  const int number = value / kBlock;
  const size_t at = find(number);
  if (!there(at, number)) {
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at), std::make_shared<Block>());
    blocks_[at]->number = number;
  }
  Block& block = own(at);
  Live& l = block.live[static_cast<size_t>(value % kBlock)];
  if (l.places != 0)
    hash_ -= hash_of(value, l.made, l.places);
  else
    ++block.held;
  l = {made, places};
  hash_ += hash_of(value, made, places);
}

void Lives::erase(int value) {
  const size_t at = find(value / kBlock);
  if (!there(at, value / kBlock)) return;
  const auto in = static_cast<size_t>(value % kBlock);
  const Live gone = blocks_[at]->live[in];
  if (gone.places == 0) return;
  hash_ -= hash_of(value, gone.made, gone.places);
  if (blocks_[at]->held == 1) {
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
    return;
  }
  Block& block = own(at);
  block.live[in] = {};
  --block.held;
}

}  // namespace peri::lower
