// Memory that was freed and that the allocator keeps for later.
#pragma once

#include <cstddef>

namespace peri {

// Gives it back to the system where it is more than `most_kept` bytes. Any thread; for the end of work that took much.
void give_back_memory(size_t most_kept);

// The same where work has no end: looked at now and then, memory that has come to be free is given back once it is
// `most_more` bytes more than after the last time. What was free all along stays for who takes it next. One thread.
class FreeMemory {
 public:
  explicit FreeMemory(size_t most_more) : most_more_(most_more) {}
  void look();

 private:
  const size_t most_more_;
  size_t free_ = 0;  // when the last of it was given back, or less since
};

}  // namespace peri
