// Current resource use of this process and its machine, from the kernel.
#pragma once

#include <cstdint>

namespace peri::serve {

struct ProcessUse {
  uint64_t resident_bytes = 0, peak_bytes = 0;
  uint64_t total_bytes = 0, used_bytes = 0;      // of the machine's memory
  double cpu_seconds = 0;                        // of this process, all threads
  double machine_busy_s = 0, machine_all_s = 0;  // of all processors since boot
  int64_t threads = 0, descriptors = 0;
};
ProcessUse process_use();

}  // namespace peri::serve
