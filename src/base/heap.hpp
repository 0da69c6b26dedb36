// Freed memory that the allocator keeps for reuse.
#pragma once

#include <cstddef>

namespace peri {

// Returns it to the system where it is more than `most_kept` bytes. Thread-safe; for the end of work that took much
// memory.
void give_back_memory(size_t most_kept);

// The same for work without an end: the free memory is checked from time to time and returned once it has grown by
// `most_more` bytes since the last time. Memory that was free all along is kept for the next allocation. Not
// thread-safe.
class FreeMemory {
 public:
  explicit FreeMemory(size_t most_more) : most_more_(most_more) {}
  void look();

 private:
  const size_t most_more_;
  size_t free_ = 0;  // after the last return, or the smallest amount since
};

}  // namespace peri
