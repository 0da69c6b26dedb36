// Total and available memory of a device.
#pragma once

#include <cstdint>

namespace peri::device {

struct MemoryInfo {
  int64_t total_bytes = 0, available_bytes = 0;  // 0: unknown
};
// Of this machine, as currently reported by the operating system.
MemoryInfo host_memory();

}  // namespace peri::device
