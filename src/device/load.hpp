// Competition for the CPUs: limits of this process, and counters whose difference shows other load meanwhile.
#pragma once

#include <cstdint>
#include <string>

namespace peri::device {

// Limits of this process set by the operating system. `root` is prepended to /proc and /sys, for tests.
struct CpuLimits {
  int online = 1;             // CPUs of the machine that are online
  int affinity = 1;           // that this process may be scheduled on
  double quota = 0;           // number of CPUs that its control groups allow; 0: no limit
  std::string quota_from;     // the file with the quota
  double max_ghz = 0;         // the highest clock that the system allows; 0: unknown
  double hardware_ghz = 0;    // the highest clock of the CPU; 0: unknown
  std::string governor = "";  // of the clock; "": unknown
  // Threads that can run at once: at least 1.
  int usable() const;
};
CpuLimits cpu_limits(const std::string& root = "");

// Totals since the machine or the process started, in seconds of CPU time; -1: unknown.
struct CpuCounters {
  double at_s = 0;          // of the clock
  double busy_s = -1;       // of all CPUs, all processes
  double stolen_s = -1;     // CPUs were ready to run and the hypervisor ran another machine
  double own_s = 0;         // of this process
  double throttled_s = -1;  // this process's control group had used up its quota
  double load = -1;         // running and waiting processes, average of the last minute
};
CpuCounters cpu_counters(const std::string& root = "");

}  // namespace peri::device
