// Synthetic records of measurements for tests.
#pragma once

#include <cmath>

#include "base/rng.hpp"
#include "bench/record.hpp"

namespace peri::bench {

// Of `processes` processes whose medians are around `ms`, about `between` apart; samples within 1 %.
inline Record made_up(double ms, int processes, uint64_t seed, double between = 0.001, int samples = 40) {
  Rng rng(seed);
  Record r;
  r.model = "m";
  r.identity = "0123456789abcdef";
  r.threads = 2;
  r.dims = {{"batch", 1}};
  for (int p = 0; p < processes; ++p) {
    ProcessRecord one;
    const double own = ms * (1 + between * rng.uniform());
    for (int k = 0; k < samples; ++k) {
      one.samples_ms.push_back(own * (1 + 0.01 * std::fabs(rng.normal())));
      one.wall_s += one.samples_ms.back() * 1e-3;
    }
    one.load_ms = 3;
    one.first_run_ms = 2;
    one.conditions = {.load = 0.5, .others_cpus = 0};
    r.processes.push_back(one);
  }
  return r;
}

}  // namespace peri::bench
