// How much memory a device has.
#pragma once

#include <cstdint>

namespace peri::device {

struct MemoryInfo {
  int64_t total_bytes = 0, available_bytes = 0;  // 0: not known
};
// Of this machine, as the operating system counts it now.
MemoryInfo host_memory();

}  // namespace peri::device
