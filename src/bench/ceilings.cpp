// Widths and caches by the target, the clock by who knows it.
#include "bench/ceilings.hpp"

#include <algorithm>
#include <cmath>

#include "bench/peaks.hpp"
#include "device/cpu_core.hpp"
#include "device/load.hpp"
#include "device/target.hpp"

namespace peri::bench {

namespace {
// The highest clock any x86 processor is sold with is 6.2 GHz (Intel Core i9-14900KS, ark.intel.com).
constexpr double kMaxClockGhz = 6.5;

// A cycle of any core of today: two loads and a store of 64 bytes in the first cache; a line from the second one and
// one written to it; a line from what lies beyond (Intel 64 and IA-32 Optimization Reference Manual, table 2-6 and
// after; AMD family 1Ah software optimization guide, section 2.12).
constexpr double kFirstBytes = 192, kSecondBytes = 128, kThirdBytes = 64;
}  // namespace

double Ceilings::gflops(bool narrow) const {
  return (narrow ? narrow_flops_per_cycle : flops_per_cycle) * clock_ghz * threads;
}

double Ceilings::floor_ms(const Work& work) const {
  const double cycles_a_ms = clock_ghz * 1e6 * threads;
  if (!(cycles_a_ms > 0)) return 0;
  const double rate = work.narrow ? narrow_flops_per_cycle : flops_per_cycle;
  double floor = rate > 0 ? work.flops / rate / cycles_a_ms : 0;
  // What does not fit into the caches before a level has to come through it.
  for (const Level& l : levels)
    if (l.bytes_per_cycle > 0)
      floor = std::max(floor, (work.bytes - static_cast<double>(l.bytes) * threads) / l.bytes_per_cycle / cycles_a_ms);
  return floor;
}

Ceilings machine_ceilings(int threads) {
  Ceilings c;
  c.threads = std::clamp(threads, 1, device::cpu_limits().usable());
  const device::Target& cpu = device::this_cpu();
  const device::CpuCore core = device::cpu_core();
  const double lanes = cpu.has("avx512") ? 16 : 8;
  // Two units of multiply-adds; AMD's cores have two of additions beside them.
  c.flops_per_cycle = lanes * (core.amd ? 6 : 4);
  // A tile product of bytes is 32768 operations in 16 cycles; without tiles four bytes take the place of a float.
  c.narrow_flops_per_cycle = core.tiles ? 2048 : 4 * c.flops_per_cycle;
  c.clock_ghz = core.stated_ghz;
  c.clock_from = "the processor (cpuid leaf 16H)";
  // Some hypervisors state a clock that the machine underneath passes.
  if (c.clock_ghz <= 0 || measured_clock_ghz() > c.clock_ghz) {
    c.clock_ghz = kMaxClockGhz;
    c.clock_from = "no processor runs faster";
  }
  const int64_t one = cpu.cache_bytes(1), two = cpu.cache_bytes(2);
  const int64_t first = one > 0 ? one : 64 << 10, second = first + (two > 0 ? two : 4 << 20);
  c.levels = {{{kFirstBytes, 0}, {kSecondBytes, first}, {kThirdBytes, second}}};
  return c;
}

void write_ceilings(JsonWriter& w, const Ceilings& c) {
  w.begin_object()
      .field("threads", c.threads)
      .field("clock_ghz", c.clock_ghz)
      .field("clock_from", c.clock_from)
      .field("flops_per_cycle", c.flops_per_cycle)
      .field("narrow_flops_per_cycle", c.narrow_flops_per_cycle)
      .field("gflops", c.gflops(false))
      .key("levels")
      .begin_array();
  for (const Ceilings::Level& l : c.levels)
    w.begin_object().field("bytes_per_cycle", l.bytes_per_cycle).field("nearer_bytes", l.bytes).end_object();
  w.end_array().end_object();
}

Result<Ceilings> read_ceilings(const Json& json) {
  Ceilings c;
  PERI_ASSIGN(const int64_t threads, json.get_int("threads"));
  PERI_ASSIGN(c.clock_ghz, json.get_double("clock_ghz"));
  PERI_ASSIGN(const std::string_view from, json.get_string("clock_from"));
  PERI_ASSIGN(c.flops_per_cycle, json.get_double("flops_per_cycle"));
  PERI_ASSIGN(c.narrow_flops_per_cycle, json.get_double("narrow_flops_per_cycle"));
  PERI_ASSIGN(const Json::Array* levels, json.get_array("levels"));
  c.clock_from = from;
  const auto positive = [](double v) { return std::isfinite(v) && v > 0; };
  if (threads < 1 || threads > INT32_MAX || !positive(c.clock_ghz) || !positive(c.flops_per_cycle) ||
      !positive(c.narrow_flops_per_cycle) || levels->size() != c.levels.size())
    return invalid("ceilings of no machine");
  c.threads = static_cast<int>(threads);
  for (size_t k = 0; k < c.levels.size(); ++k) {
    PERI_ASSIGN(c.levels[k].bytes_per_cycle, (*levels)[k].get_double("bytes_per_cycle"));
    PERI_ASSIGN(c.levels[k].bytes, (*levels)[k].get_int("nearer_bytes"));
    if (!positive(c.levels[k].bytes_per_cycle) || c.levels[k].bytes < 0) return invalid("a cache of no machine");
  }
  return c;
}

}  // namespace peri::bench
