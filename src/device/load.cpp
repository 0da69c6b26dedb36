// Reading of /proc/stat, /proc/loadavg, cpufreq, and the control groups of both versions.
#include "device/load.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clock.hpp"
#include "base/control_groups.hpp"
#include "base/system_text.hpp"

namespace peri::device {

int CpuLimits::usable() const {
  return std::max(1, quota > 0 ? std::min(affinity, static_cast<int>(std::ceil(quota))) : affinity);
}

CpuLimits cpu_limits(const std::string& root) {
  CpuLimits out;
  out.online = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t set;
  CPU_ZERO(&set);
  out.affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  const CpuQuota quota = cpu_quota(root);
  out.quota = quota.cpus;
  out.quota_from = quota.from;
  const std::string clock = root + "/sys/devices/system/cpu/cpu0/cpufreq/";
  out.max_ghz = number_in(clock + "scaling_max_freq") * 1e-6;
  out.hardware_ghz = number_in(clock + "cpuinfo_max_freq") * 1e-6;
  const std::vector<std::string> governor = words_of(system_text(clock + "scaling_governor"));
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
  const std::vector<std::string> cpu = words_of(system_text(root + "/proc/stat"));
  if (cpu.size() > 8 && cpu[0] == "cpu") {
    double busy = 0;
    for (const size_t k : {1, 2, 3, 6, 7}) busy += number_of(cpu, k, 0);
    out.busy_s = busy / ticks;
    out.stolen_s = number_of(cpu, 8, 0) / ticks;
  }
  out.load = number_of(words_of(system_text(root + "/proc/loadavg")), 0, -1);
  const ControlGroups groups = control_groups("cpu", root);
  const auto throttled = [&](const std::string& folder, const char* key, double unit) {
    const double v = number_behind(system_text(folder + "/cpu.stat"), key, -1);
    if (v >= 0) out.throttled_s = std::max(out.throttled_s, v * unit);
  };
  for (const std::string& folder : groups.unified) throttled(folder, "throttled_usec", 1e-6);
  for (const std::string& folder : groups.first) throttled(folder, "throttled_time", 1e-9);
  return out;
}

}  // namespace peri::device
