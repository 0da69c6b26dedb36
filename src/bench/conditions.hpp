// Other load on the CPUs during a measurement, as numbers and in words, so that a result reports
// interference.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "device/load.hpp"

namespace peri::bench {

// -1: unknown.
struct Conditions {
  double load = -1;             // before: one-minute average of running and waiting processes, without this one
  double others_cpus = -1;      // number of CPUs that other processes used meanwhile
  double stolen_share = -1;     // of the time of all CPUs: given to other machines by the hypervisor
  double throttled_share = -1;  // of the time: this process was throttled by a control group
};

Conditions conditions_between(const device::CpuCounters& before, const device::CpuCounters& after, int online);
// A line for each disturbance of a measurement with this many threads; none where it had the CPUs to itself.
std::vector<std::string> disturbances(const Conditions& conditions, int threads, const device::CpuLimits& limits);

void write_conditions(JsonWriter& w, const Conditions& conditions);  // an object of the known values
Result<Conditions> read_conditions(const Json& json);

}  // namespace peri::bench
