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
  int asked_threads = 1, threads = 1;  // requested, and used for measuring: no more than limits.usable()
  bench::Ceilings ceilings;
  bench::Peaks one, all;         // of one thread, and of `threads`
  double clock_ghz = 0;          // measured
  bench::Conditions conditions;  // during the measurement

  // A line for each thing that takes CPUs, time or clock from this process, with the remedy. Empty: nothing does.
  std::vector<std::string> in_the_way() const;
  // Improvements through another machine or another build.
  std::vector<std::string> advice() const;
};

// Takes about two seconds.
Checkup check_up(int threads);
// Members of an object, without the texts of in_the_way() and advice().
void write_checkup(JsonWriter& w, const Checkup& checkup);
void write_limits(JsonWriter& w, const device::CpuLimits& limits);  // an object of the known values

}  // namespace peri::build
