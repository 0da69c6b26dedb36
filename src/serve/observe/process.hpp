// Current resource use of this process, of its workers and of its machine, from the kernel.
#pragma once

#include <cstdint>
#include <string>

namespace peri::serve {

struct ProcessUse {
  uint64_t resident_bytes = 0, peak_bytes = 0;
  // Memory that this process may use, of the machine or of its control groups, and what of it is in use by all.
  uint64_t total_bytes = 0, used_bytes = 0;
  double cpu_seconds = 0;                        // of the process, all threads
  double machine_busy_s = 0, machine_all_s = 0;  // of all processors since boot
  int64_t threads = 0, descriptors = 0;
};
// `root` is prepended to the paths of memory limits, for tests.
ProcessUse process_use(const std::string& root = "");
// What concerns another process alone: the members of the machine are 0, and all are once it has ended.
ProcessUse use_of(int64_t pid);
// Processor time of the children of this process that have ended.
double ended_cpu_seconds();

struct NamedProcess {
  std::string name;
  int64_t pid = 0;
};

}  // namespace peri::serve
