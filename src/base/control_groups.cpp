// Version 2 is mounted at /sys/fs/cgroup, controllers of version 1 in folders of it that have their names.
#include "base/control_groups.hpp"

#include "base/system_text.hpp"

namespace peri {

namespace {
void add_with_parents(const std::string& mount, std::string path, std::vector<std::string>* out) {
  while (!path.empty() && path != "/") {
    out->push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  out->push_back(mount);
}

void limit_by(double quota, double period, const std::string& from, CpuQuota* out) {
  if (!(quota > 0) || !(period > 0)) return;
  if (out->cpus > 0 && out->cpus <= quota / period) return;
  *out = {quota / period, from};
}
}  // namespace

ControlGroups control_groups(std::string_view controller, const std::string& root) {
  ControlGroups out;
  const std::string mount = root + "/sys/fs/cgroup", wanted = "," + std::string(controller) + ",";
  for (const std::string& line : parts_of(system_text(root + "/proc/self/cgroup"), "\n")) {
    const size_t one = line.find(':'), two = line.find(':', one + 1);
    if (one == std::string::npos || two == std::string::npos) continue;
    const std::string controllers = "," + line.substr(one + 1, two - one - 1) + ",", path = line.substr(two + 1);
    if (path.empty() || path[0] != '/') continue;
    if (controllers == ",,")
      add_with_parents(mount, path, &out.unified);
    else if (controllers.find(wanted) != std::string::npos)
      add_with_parents(mount + "/" + std::string(controller), path, &out.first);
  }
  if (out.unified.empty()) out.unified.push_back(mount);
  return out;
}

CpuQuota cpu_quota(const std::string& root) {
  CpuQuota out;
  const ControlGroups groups = control_groups("cpu", root);
  for (const std::string& folder : groups.unified) {
    const std::string from = folder + "/cpu.max";
    const std::vector<std::string> words = words_of(system_text(from));  // "max 100000": there is no limit
    limit_by(number_of(words, 0, 0), number_of(words, 1, 0), from, &out);
  }
  for (const std::string& folder : groups.first)
    limit_by(number_in(folder + "/cpu.cfs_quota_us"), number_in(folder + "/cpu.cfs_period_us"),
             folder + "/cpu.cfs_quota_us", &out);
  return out;
}

}  // namespace peri
