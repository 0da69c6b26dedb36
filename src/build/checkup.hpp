// Describes this machine, what it sustains and what interferes with it: measured with no more threads than it can run
// at once, while other users of the CPUs are counted.
#pragma once

#include <string>
#include <vector>

#include "bench/ceilings.hpp"
#include "bench/conditions.hpp"
#include "bench/peaks.hpp"
#include "build/machine.hpp"

namespace peri::build {

struct Checkup {
  MachineFacts machine;
  device::CpuLimits limits;
  int asked_threads = 1, threads = 1;  // asked for, and measured with: no more than limits.usable()
  bench::Ceilings ceilings;
  bench::Peaks one, all;         // of one thread, and of `threads`
  double clock_ghz = 0;          // measured
  bench::Conditions conditions;  // while it was measured

  // A line for each: what takes CPUs, time or clock from this process, with the remedy. Empty: nothing does.
  std::vector<std::string> in_the_way() const;
  // What another machine or another build would do better.
  std::vector<std::string> advice() const;
};

// Takes about two seconds.
Checkup check_up(int threads);
// Members of an object, without what in_the_way() and advice() say.
void write_checkup(JsonWriter& w, const Checkup& checkup);
void write_limits(JsonWriter& w, const device::CpuLimits& limits);  // an object, with what is known

}  // namespace peri::build
