// Differences of counters, and the thresholds from which they are reported.
#include "bench/conditions.hpp"

#include <algorithm>
#include <cmath>

#include "base/plural.hpp"

namespace peri::bench {

namespace {
// Shares below which nothing is said. A machine at rest has services that take up to 2 % of a CPU and a kernel that
// steals as much; samples of 1 % resolution (a tick of /proc/stat) within a second show no less.
constexpr double kMaxStolen = 0.02, kMaxThrottled = 0.01, kMaxOthers = 0.1;
}  // namespace

Conditions conditions_between(const device::CpuCounters& before, const device::CpuCounters& after, int online) {
  Conditions c;
  const double seconds = after.at_s - before.at_s;
  c.load = before.load;
  if (!(seconds > 0)) return c;
  if (before.busy_s >= 0 && after.busy_s >= 0)
    c.others_cpus = std::max(0.0, (after.busy_s - before.busy_s - (after.own_s - before.own_s)) / seconds);
  if (before.stolen_s >= 0 && after.stolen_s >= 0)
    c.stolen_share = std::max(0.0, after.stolen_s - before.stolen_s) / (seconds * std::max(1, online));
  if (before.throttled_s >= 0 && after.throttled_s >= 0)
    c.throttled_share = std::max(0.0, after.throttled_s - before.throttled_s) / seconds;
  return c;
}

std::vector<std::string> disturbances(const Conditions& c, int threads, const device::CpuLimits& limits) {
  std::vector<std::string> out;
  if (threads > limits.usable())
    out.push_back(format("%d threads share the %s that this process may use: they take turns", threads,
                         counted(limits.usable(), "CPU").c_str()));
  if (c.others_cpus > kMaxOthers && c.others_cpus + threads > limits.online)
    out.push_back(format("other processes used %.1f of %d CPUs: stop them, or measure with fewer threads",
                         c.others_cpus, limits.online));
  if (c.stolen_share > kMaxStolen)
    out.push_back(
        format("the hypervisor gave %.0f %% of the CPUs' time to other machines (steal): measure again, or on "
               "a machine of its own",
               100 * c.stolen_share));
  if (c.throttled_share > kMaxThrottled)
    out.push_back(format("a control group held this process back for %.0f %% of the time%s", 100 * c.throttled_share,
                         limits.quota_from.empty() ? "" : (": raise the limit in " + limits.quota_from).c_str()));
  return out;
}

void write_conditions(JsonWriter& w, const Conditions& c) {
  w.begin_object();
  const auto known = [&](const char* key, double v) {
    if (v >= 0) w.field(key, v);
  };
  known("load", c.load);
  known("others_cpus", c.others_cpus);
  known("stolen_share", c.stolen_share);
  known("throttled_share", c.throttled_share);
  w.end_object();
}

Result<Conditions> read_conditions(const Json& json) {
  Conditions c;
  PERI_ASSIGN(c.load, json.get_double("load", -1));
  PERI_ASSIGN(c.others_cpus, json.get_double("others_cpus", -1));
  PERI_ASSIGN(c.stolen_share, json.get_double("stolen_share", -1));
  PERI_ASSIGN(c.throttled_share, json.get_double("throttled_share", -1));
  for (const double v : {c.load, c.others_cpus, c.stolen_share, c.throttled_share})
    if (!std::isfinite(v)) return invalid("conditions of no machine");
  return c;
}

}  // namespace peri::bench
