// What a load counted.
#include "serve/load/window.hpp"

#include <algorithm>

namespace peri::serve {

uint64_t LoadResult::failed() const {
  uint64_t n = 0;
  for (const auto& [name, count] : errors) n += count;
  return n;
}

uint64_t LoadResult::wrong() const {
  const auto it = errors.find(kWrong);
  return it == errors.end() ? 0 : it->second;
}

std::string LoadResult::error_text(const std::string& name) const {
  const auto words = said.find(name);
  return words == said.end() ? name : name + ": " + words->second;
}

bool settled(std::span<const LoadWindow> windows, const LoadTerms& terms) {
  if (windows.size() < 3) return false;
  const auto near = [&](const auto& value) {
    double mean = 0, low = 1e300, high = 0;
    for (const LoadWindow& w : windows.last(3)) {
      const double v = value(w);
      mean += v / 3;
      low = std::min(low, v);
      high = std::max(high, v);
    }
    return mean > 0 && high - mean <= terms.stability * mean && mean - low <= terms.stability * mean;
  };
  return near([](const LoadWindow& w) {
           return static_cast<double>(w.ok) * 1e9 / static_cast<double>(w.end_ns - w.begin_ns);
         }) &&
         near([&](const LoadWindow& w) { return static_cast<double>(w.latency.quantile(terms.quantile)); });
}

}  // namespace peri::serve
