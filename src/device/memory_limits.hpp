// Memory of the machine and of the control groups of this process, from the files that say it.
#pragma once

#include <string>

#include "device/memory_info.hpp"

namespace peri::device {

// Total: the least of the machine's memory and of the limits of this process's groups, version 1 or 2, and of the
// groups that they are in. Available: the least of what the machine and each of these have left; page cache that can
// be reclaimed counts as available, as in MemAvailable. `root` is prepended to /proc and /sys, for tests.
MemoryInfo read_memory(const std::string& root = "");

}  // namespace peri::device
