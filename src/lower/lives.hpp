// Values and the places where they lie, of which a copy shares all but what it changes: in blocks by value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace peri::lower {

class Lives {
 public:
  // Where `value` lies by now, a bit for each place, and the place that made it; 0: it is not held.
  uint64_t at(int value, int* made) const;
  void put(int value, int made, uint64_t places);
  void erase(int value);
  uint64_t hash() const { return hash_; }  // of what is held, in whichever order it came
  size_t blocks() const { return blocks_.size(); }

 private:
  static constexpr int kBlock = 32;  // 512 bytes, which a change copies
  struct Live {
    int made = 0;
    uint64_t places = 0;
  };
  struct Block {
    int number = 0;  // values from kBlock * number on
    int held = 0;
    std::array<Live, kBlock> live = {};
  };

  size_t find(int number) const;
  Block& own(size_t at);  // not shared with a copy any more
  bool there(size_t at, int number) const { return at < blocks_.size() && blocks_[at]->number == number; }

  std::vector<std::shared_ptr<Block>> blocks_;  // by number, none empty
  uint64_t hash_ = 0;
};

}  // namespace peri::lower
