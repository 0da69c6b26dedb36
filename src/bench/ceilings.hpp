// Rates that no run on this machine can exceed: arithmetic and movement of a core in one cycle, at a clock it never
// exceeds. A time below floor_ms() is a measurement error.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace peri::bench {

// The part of a run's work that is unavoidable.
struct Work {
  double flops = 0;     // two per multiply-add
  bool narrow = false;  // elements below 32 bits, for which processors have separate units
  double bytes = 0;     // read or written at least once
};

struct Ceilings {
  int threads = 1;
  double clock_ghz = 0;
  std::string clock_from;                                  // the source of the clock
  double flops_per_cycle = 0, narrow_flops_per_cycle = 0;  // per core
  struct Level {
    double bytes_per_cycle = 0;  // per core, moved through the level
    int64_t bytes = 0;           // capacity of the levels closer to the core
  };
  std::array<Level, 3> levels = {};  // first, second and third cache; memory is reached through the last
  std::string_view unit = "thread";  // what `threads` counts, for messages

  double gflops(bool narrow) const;
  // Lower bound of the time in ms, with warm caches. 0 for no work.
  double floor_ms(const Work& work) const;
};

// For `threads` cores of this machine, each with its own caches; at most the CPUs that this process may use.
Ceilings machine_ceilings(int threads);

void write_ceilings(JsonWriter& w, const Ceilings& ceilings);  // an object
Result<Ceilings> read_ceilings(const Json& json);

}  // namespace peri::bench
