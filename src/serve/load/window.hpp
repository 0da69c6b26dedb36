// What a window of a load has counted, and whether windows agree.
#pragma once

#include <map>
#include <span>
#include <string>

#include "serve/load/load.hpp"

namespace peri::serve {

struct LoadWindow {
  int64_t begin_ns = 0, end_ns = 0;
  uint64_t ok = 0, good = 0;
  std::map<std::string, uint64_t> errors;
  stats::Histogram latency, service, failed_times;
};

// Whether the last three windows agree in rate and in the quantile of latency.
bool settled(std::span<const LoadWindow> windows, const LoadTerms& terms);

}  // namespace peri::serve
