// Reading of /proc/stat, /proc/loadavg, cpufreq, and the control groups of both versions.
#include "device/load.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/clock.hpp"
#include "base/file.hpp"

namespace peri::device {

namespace {
// "" where there is no such file.
std::string text_of(const std::string& path) {
  auto text = read_file(path, size_t{1} << 20);
  return text.ok() ? *std::move(text) : "";
}

// Parts of a text between any of `between`; none is empty.
std::vector<std::string> parts_of(std::string_view text, std::string_view between) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(between), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}
std::vector<std::string> words_of(std::string_view text) { return parts_of(text, " \t\n"); }

// The number that word `k` is, `otherwise` where there is no such word or it is none: "max".
double number(const std::vector<std::string>& words, size_t k, double otherwise) {
  double v = 0;
  if (k >= words.size()) return otherwise;
  const auto [end, code] = std::from_chars(words[k].data(), words[k].data() + words[k].size(), v);
  return code == std::errc() && end == words[k].data() + words[k].size() ? v : otherwise;
}

double number_in(const std::string& path) { return number(words_of(text_of(path)), 0, 0); }

// Folders of this process's control groups that hold CPU limits, innermost first. In a container the path that
// /proc/self/cgroup states may not be visible; the root of the mount is what applies then.
struct Groups {
  std::vector<std::string> unified, first;  // versions 2 and 1
};

void add_with_parents(const std::string& mount, std::string path, std::vector<std::string>* out) {
  while (!path.empty() && path != "/") {
    out->push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  out->push_back(mount);
}

Groups groups_of(const std::string& root) {
  Groups g;
  for (const std::string& line : parts_of(text_of(root + "/proc/self/cgroup"), "\n")) {
    const size_t one = line.find(':'), two = line.find(':', one + 1);
    if (one == std::string::npos || two == std::string::npos) continue;
    const std::string controllers = "," + line.substr(one + 1, two - one - 1) + ",", path = line.substr(two + 1);
    if (path.empty() || path[0] != '/') continue;
    if (controllers == ",,")
      add_with_parents(root + "/sys/fs/cgroup", path, &g.unified);
    else if (controllers.find(",cpu,") != std::string::npos)
      add_with_parents(root + "/sys/fs/cgroup/cpu", path, &g.first);
  }
  if (g.unified.empty()) g.unified.push_back(root + "/sys/fs/cgroup");
  return g;
}

void limit_by(double quota, double period, const std::string& from, CpuLimits* limits) {
  if (!(quota > 0) || !(period > 0)) return;
  if (limits->quota > 0 && limits->quota <= quota / period) return;
  limits->quota = quota / period;
  limits->quota_from = from;
}

// The number behind "key " in a file of such lines; -1: none.
double member(const std::string& path, std::string_view wanted) {
  const std::vector<std::string> words = words_of(text_of(path));
  for (size_t k = 0; k + 1 < words.size(); k += 2)
    if (words[k] == wanted) return number(words, k + 1, -1);
  return -1;
}
}  // namespace

int CpuLimits::usable() const {
  return std::max(1, quota > 0 ? std::min(affinity, static_cast<int>(std::ceil(quota))) : affinity);
}

CpuLimits cpu_limits(const std::string& root) {
  CpuLimits out;
  out.online = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t set;
  CPU_ZERO(&set);
  out.affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  const Groups groups = groups_of(root);
  for (const std::string& folder : groups.unified) {
    const std::vector<std::string> words = words_of(text_of(folder + "/cpu.max"));  // "max 100000": there is no limit
    limit_by(number(words, 0, 0), number(words, 1, 0), folder + "/cpu.max", &out);
  }
  for (const std::string& folder : groups.first)
    limit_by(number_in(folder + "/cpu.cfs_quota_us"), number_in(folder + "/cpu.cfs_period_us"),
             folder + "/cpu.cfs_quota_us", &out);
  const std::string clock = root + "/sys/devices/system/cpu/cpu0/cpufreq/";
  out.max_ghz = number_in(clock + "scaling_max_freq") * 1e-6;
  out.hardware_ghz = number_in(clock + "cpuinfo_max_freq") * 1e-6;
  const std::vector<std::string> governor = words_of(text_of(clock + "scaling_governor"));
  if (!governor.empty()) out.governor = governor[0];
  return out;
}

CpuCounters cpu_counters(const std::string& root) {
  CpuCounters out;
  out.at_s = static_cast<double>(now_ns()) * 1e-9;
  rusage used = {};
  if (getrusage(RUSAGE_SELF, &used) == 0)
    out.own_s = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
  const double ticks = static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  // "cpu", then user, nice, system, idle, iowait, irq, softirq, steal.
  const std::vector<std::string> cpu = words_of(text_of(root + "/proc/stat"));
  if (cpu.size() > 8 && cpu[0] == "cpu") {
    double busy = 0;
    for (const size_t k : {1, 2, 3, 6, 7}) busy += number(cpu, k, 0);
    out.busy_s = busy / ticks;
    out.stolen_s = number(cpu, 8, 0) / ticks;
  }
  out.load = number(words_of(text_of(root + "/proc/loadavg")), 0, -1);
  const Groups groups = groups_of(root);
  const auto throttled = [&](const std::string& folder, const char* key, double unit) {
    const double v = member(folder + "/cpu.stat", key);
    if (v >= 0) out.throttled_s = std::max(out.throttled_s, v * unit);
  };
  for (const std::string& folder : groups.unified) throttled(folder, "throttled_usec", 1e-6);
  for (const std::string& folder : groups.first) throttled(folder, "throttled_time", 1e-9);
  return out;
}

}  // namespace peri::device
