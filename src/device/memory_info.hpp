// Total and available memory of a device.
#pragma once

#include <cstdint>
#include <string>

namespace peri::device {

struct MemoryInfo {
  int64_t total_bytes = 0, available_bytes = 0;  // 0: unknown
};
// Of this machine, as currently reported by the operating system.
MemoryInfo host_memory();
// Why work that takes so many bytes of host memory is not started: four fifths of what is free are less. The rest is
// for the process and its neighbours; what is small is started on any machine. `what`: the words before the number, "a
// run takes". "": it is started.
std::string lacks_host_memory(double bytes, const char* what);

}  // namespace peri::device
