// The properties of this CPU that may change results: all that loading and running an engine needs. The rest of
// this_cpu(), its name and its caches, takes a quarter of a millisecond to detect, half of a small engine's load.
#pragma once

#include "device/target.hpp"

namespace peri::device {

// The instruction sets of this_cpu(). Detected at the first call; thread-safe.
const std::vector<std::string>& this_isas();
// cpu_target() without name and caches.
Target running_target(int threads, std::vector<std::string> libraries);

}  // namespace peri::device
