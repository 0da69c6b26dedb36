// Other load on the CPUs during a measurement, as numbers and in words, so that a result reports
// interference.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "device/load.hpp"

namespace peri::bench {

// -1: not known.
struct Conditions {
  double load = -1;             // before: processes that ran or wanted to, this one apart, average of a minute
  double others_cpus = -1;      // CPUs' worth of time that other processes had meanwhile
  double stolen_share = -1;     // of the time of all CPUs, that the hypervisor gave to other machines
  double throttled_share = -1;  // of the time, that a control group held this process back
};

Conditions conditions_between(const device::CpuCounters& before, const device::CpuCounters& after, int online);
// A line for each thing that disturbed a measurement with so many threads; none where it had the CPUs to itself.
std::vector<std::string> disturbances(const Conditions& conditions, int threads, const device::CpuLimits& limits);

void write_conditions(JsonWriter& w, const Conditions& conditions);  // an object, with what is known
Result<Conditions> read_conditions(const Json& json);

}  // namespace peri::bench
