// Competition for the CPUs: limits of this process, and counters whose difference shows other load meanwhile.
#pragma once

#include <cstdint>
#include <string>

namespace peri::device {

// What the operating system grants this process. `root` stands before /proc and /sys, for tests.
struct CpuLimits {
  int online = 1;             // CPUs of the machine that run
  int affinity = 1;           // that this process may be scheduled on
  double quota = 0;           // CPUs' worth of time that its control groups allow; 0: no limit
  std::string quota_from;     // the file that says so
  double max_ghz = 0;         // the highest clock the system lets a CPU run at; 0: not known
  double hardware_ghz = 0;    // that the CPU could run at; 0: not known
  std::string governor = "";  // of the clock; "": not known
  // Threads that can run at once: at least 1.
  int usable() const;
};
CpuLimits cpu_limits(const std::string& root = "");

// Totals since the machine or the process began, in seconds of CPU time; -1: not known.
struct CpuCounters {
  double at_s = 0;          // of the clock
  double busy_s = -1;       // of all CPUs, all processes
  double stolen_s = -1;     // CPUs were ready to run and the hypervisor ran somebody else
  double own_s = 0;         // of this process
  double throttled_s = -1;  // this process's control group had used up its quota
  double load = -1;         // processes that run or want to, average of the last minute
};
CpuCounters cpu_counters(const std::string& root = "");

}  // namespace peri::device
