// Measures, and judges the measurements.
#include "build/checkup.hpp"

#include <algorithm>

#include "base/plural.hpp"
#include "kernels/vendor/library.hpp"

namespace peri::build {

namespace {
// A clock below this share of what the CPU could run at: turbo under vector load takes no more than a fifth.
constexpr double kMinClockShare = 0.75;
// Load beside this process, as a share of the CPUs: below it a thread seldom waits.
constexpr double kMaxLoadShare = 0.25;

void add_limits(const Checkup& c, std::vector<std::string>* out) {
  const device::CpuLimits& l = c.limits;
  if (c.asked_threads > c.threads)
    out->push_back(format("%d threads were asked for, but this process may use %s: measured with %d", c.asked_threads,
                          counted(l.usable(), "CPU").c_str(), c.threads));
  if (l.affinity < l.online)
    out->push_back(format("this process may run on %d of %d CPUs: an affinity mask (taskset) or a cpuset says so",
                          l.affinity, l.online));
  if (l.quota > 0 && l.quota < l.affinity)
    out->push_back(format("a control group limits this process to %.2f CPUs: raise the limit in %s", l.quota,
                          l.quota_from.c_str()));
}

void add_clock(const Checkup& c, std::vector<std::string>* out) {
  const device::CpuLimits& l = c.limits;
  if (l.max_ghz > 0 && l.max_ghz < 0.99 * l.hardware_ghz)
    out->push_back(
        format("the clock is limited to %.2f of %.2f GHz: raise scaling_max_freq (cpupower frequency-set -u)",
               l.max_ghz, l.hardware_ghz));
  const double could = l.hardware_ghz > 0 ? std::min(l.max_ghz > 0 ? l.max_ghz : l.hardware_ghz, l.hardware_ghz) : 0;
  if (could > 0 && c.clock_ghz > 0 && c.clock_ghz < kMinClockShare * could)
    out->push_back(
        format("the clock stood at %.2f of %.2f GHz%s%s%s: set the governor to 'performance', and see that "
               "the CPU is cooled",
               c.clock_ghz, could, l.governor.empty() ? "" : " (governor '", l.governor.c_str(),
               l.governor.empty() ? "" : "')"));
}
}  // namespace

std::vector<std::string> Checkup::in_the_way() const {
  std::vector<std::string> out;
  add_limits(*this, &out);
  for (std::string& why : bench::disturbances(conditions, threads, limits)) out.push_back(std::move(why));
  if (conditions.load > kMaxLoadShare * limits.online)
    out.push_back(format("the load was %.1f on %d CPUs in the last minute: other processes ran or waited to",
                         conditions.load, limits.online));
  add_clock(*this, &out);
  if (threads > 1 && all.fma_gflops < 1.3 * one.fma_gflops)
    out.push_back(
        format("%d CPUs give only %.1f times the arithmetic of one: they share a core, or something else is "
               "running",
               threads, all.fma_gflops / std::max(1e-9, one.fma_gflops)));
  if (machine.memory.available_bytes > 0 && machine.memory.available_bytes < (int64_t{1} << 30))
    out.emplace_back("less than 1 GiB of memory is free: large models will not load");
  return out;
}

std::vector<std::string> Checkup::advice() const {
  std::vector<std::string> out;
  if (machine.target.isas.empty())
    out.emplace_back("this CPU has no AVX2 and FMA: every step runs on the slow reference; use a CPU of 2013 or later");
  else if (machine.target.isas.size() == 1)
    out.emplace_back("AVX2 kernels are used; a CPU with AVX-512 is about twice as fast in matrix products");
  if (const Status there = kernels::vendor::open_onednn(); !there.ok())
    out.push_back("oneDNN cannot be opened, so its kernels do not compete, and engines that use it do not run: " +
                  there.error().text());
  return out;
}

Checkup check_up(int threads) {
  Checkup c;
  c.machine = machine_facts();
  c.limits = device::cpu_limits();
  c.asked_threads = threads;
  c.threads = std::clamp(threads, 1, c.limits.usable());
  c.ceilings = bench::machine_ceilings(c.threads);
  const device::CpuCounters before = device::cpu_counters();
  c.one = bench::measure_peaks(1, 1.0);
  c.all = c.threads > 1 ? bench::measure_peaks(c.threads, 1.0) : c.one;
  c.clock_ghz = bench::measured_clock_ghz();
  c.conditions = bench::conditions_between(before, device::cpu_counters(), c.limits.online);
  return c;
}

void write_limits(JsonWriter& w, const device::CpuLimits& l) {
  w.begin_object().field("online", l.online).field("affinity", l.affinity).field("usable", l.usable());
  if (l.quota > 0) w.field("quota", l.quota).field("quota_from", l.quota_from);
  if (l.max_ghz > 0) w.field("max_ghz", l.max_ghz);
  if (l.hardware_ghz > 0) w.field("hardware_ghz", l.hardware_ghz);
  if (!l.governor.empty()) w.field("governor", l.governor);
  w.end_object();
}

void write_checkup(JsonWriter& w, const Checkup& c) {
  w.key("machine");
  write_machine(w, c.machine);
  w.key("target");
  device::write_target(w, c.machine.target);
  w.key("limits");
  write_limits(w, c.limits);
  w.field("asked_threads", c.asked_threads)
      .field("threads", c.threads)
      .field("clock_ghz", c.clock_ghz)
      .key("conditions");
  bench::write_conditions(w, c.conditions);
  w.key("ceilings");
  bench::write_ceilings(w, c.ceilings);
  w.key("peaks_one_thread");
  bench::write_peaks(w, c.one);
  w.key("peaks");
  bench::write_peaks(w, c.all);
}

}  // namespace peri::build
