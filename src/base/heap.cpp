// glibc's allocator keeps what lies between blocks in use, of every size, until it is asked.
#include "base/heap.hpp"

#include <malloc.h>

namespace peri {

void give_back_memory(size_t most_kept) {
  if (mallinfo2().fordblks > most_kept) malloc_trim(0);
}

}  // namespace peri
