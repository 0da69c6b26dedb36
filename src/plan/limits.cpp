// Limits that a program's dimensions were built with: they are sound, and what a run asks for lies within them.
#include <algorithm>

#include "plan/program.hpp"

namespace peri::plan {

Status check_limits(const Program& p) {
  for (const auto* list : {&p.at_least, &p.at_most})
    for (const auto& [dim, value] : *list)
      if (value < 0 || std::find(p.dims.begin(), p.dims.end(), dim) == p.dims.end())
        return invalid("a limit of no dimension, or below 0").at_node(dim);
  for (const auto& [dim, value] : p.at_least)
    if (const auto most = p.at_most.find(dim); most != p.at_most.end() && most->second < value)
      return invalid("no size lies within the limits").at_node(dim);
  return Ok{};
}

std::string limits_text(const Program& p, const std::string& dim) {
  const auto least = p.at_least.find(dim), most = p.at_most.find(dim);
  const bool low = least != p.at_least.end(), high = most != p.at_most.end();
  if (low && high)
    return format("%lld to %lld", static_cast<long long>(least->second), static_cast<long long>(most->second));
  if (low) return format("at least %lld", static_cast<long long>(least->second));
  return high ? format("at most %lld", static_cast<long long>(most->second)) : "";
}

Status within_limits(const Program& p, const DimBinding& sizes) {
  for (const auto& [dim, value] : sizes) {
    const auto least = p.at_least.find(dim), most = p.at_most.find(dim);
    if ((least == p.at_least.end() || value >= least->second) && (most == p.at_most.end() || value <= most->second))
      continue;
    return refused("dimension '%s' is beyond what the engine was built for", dim.c_str())
        .expecting(limits_text(p, dim))
        .but_found(std::to_string(value))
        .advise("widen --min-shapes and --max-shapes of its build, or leave them out: then any size runs");
  }
  return Ok{};
}

}  // namespace peri::plan
