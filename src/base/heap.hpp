// Memory that was freed and that the allocator keeps for later.
#pragma once

#include <cstddef>

namespace peri {

// Gives it back to the system where it is more than `most_kept` bytes. Any thread; for the end of work that took much.
void give_back_memory(size_t most_kept);

}  // namespace peri
