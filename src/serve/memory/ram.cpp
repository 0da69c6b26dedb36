// Ram is what the device of the host says of its memory.
#include "serve/memory/ram.hpp"

#include <unistd.h>

#include "base/system_text.hpp"
#include "device/memory_limits.hpp"

namespace peri::serve {

Ram read_ram(const std::string& root) {
  const device::MemoryInfo memory = device::read_memory(root);
  return {memory.total_bytes, memory.available_bytes};
}

int64_t resident_bytes() {
  constexpr size_t kResident = 1;  // words of statm, in pages: size, resident, ...
  const double pages = number_of(words_of(system_text("/proc/self/statm")), kResident, 0);
  return static_cast<int64_t>(pages) * sysconf(_SC_PAGESIZE);
}

}  // namespace peri::serve
