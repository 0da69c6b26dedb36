// The control groups of this process, of both versions, and the CPUs that they allow. `root` is prepended to /proc and
// /sys, for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace peri {

// Folders of this process's groups that hold the files of a controller ("cpu", "memory"), innermost first. In a
// container the path that /proc/self/cgroup states may not be visible; the root of the mount, always listed, is what
// applies then. A limit of any of them holds.
struct ControlGroups {
  std::vector<std::string> unified, first;  // versions 2 and 1
};
ControlGroups control_groups(std::string_view controller, const std::string& root = "");

// The least number of CPUs that any group allows, and the file that says so; 0: no limit.
struct CpuQuota {
  double cpus = 0;
  std::string from;
};
CpuQuota cpu_quota(const std::string& root = "");

}  // namespace peri
