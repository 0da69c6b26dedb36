// glibc's allocator keeps free blocks of every size between blocks in use until malloc_trim is called.
#include "base/heap.hpp"

#include <malloc.h>

#include <algorithm>

namespace peri {

void give_back_memory(size_t most_kept) {
  if (mallinfo2().fordblks > most_kept) malloc_trim(0);
}

void FreeMemory::look() {
  const size_t free = mallinfo2().fordblks;
  const bool much = free >= free_ + most_more_;
  if (much) malloc_trim(0);
  free_ = much ? free : std::min(free, free_);
}

}  // namespace peri
