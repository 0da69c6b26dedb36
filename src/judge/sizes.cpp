// Candidates for a size, and the first that the model's shapes allow.
#include "judge/sizes.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include "exec/region/region_payload.hpp"

namespace peri::judge {
namespace {

using Change = std::function<int64_t(int64_t)>;

bool possible(const ir::Graph& graph, const DimBinding& sizes) { return exec::bind_region(graph, sizes, true).ok(); }

// All dimensions changed, else the first that can be changed alone.
std::optional<DimBinding> changed(const ir::Graph& graph, const DimBinding& from, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    DimBinding all = from;
    for (auto& [name, value] : all) value = change(value);
    if (all != from && possible(graph, all)) return all;
  }
  for (const auto& [name, value] : from) {
    for (const Change& change : changes) {
      DimBinding one = from;
      one[name] = change(value);
      if (one != from && possible(graph, one)) return one;
    }
  }
  return std::nullopt;
}
}  // namespace

std::vector<DimBinding> sizes_to_judge(const ir::Graph& graph, const DimBinding& tuned_for,
                                       const std::vector<DimBinding>& bounds) {
  std::vector<DimBinding> out = {tuned_for};
  if (tuned_for.empty()) return out;
  for (const DimBinding& bound : bounds)
    if (std::find(out.begin(), out.end(), bound) == out.end()) out.push_back(bound);
  if (!bounds.empty()) return out;
  // Odd sizes first: tails of every kernel. Multiples of what the size is one of, for models that halve it.
  const std::vector<Change> smaller = {
      [](int64_t v) { return v > 2 ? (v * 5 / 8) | 1 : 1; },
      [](int64_t v) { return std::max<int64_t>(1, v / 2); },
      [](int64_t v) { return std::max<int64_t>(1, v / 4 * 3); },
      [](int64_t) { return int64_t{1}; },
  };
  const std::vector<Change> larger = {
      [](int64_t v) { return v < 2 ? v + 1 : (v + v / 8 + 1) | 1; },
      [](int64_t v) { return v < 8 ? 2 * v : v + v / 2; },
      [](int64_t v) { return 2 * v; },
      [](int64_t v) { return v + 1; },
  };
  for (const auto* changes : {&smaller, &larger})
    if (auto sizes = changed(graph, tuned_for, *changes);
        sizes && std::find(out.begin(), out.end(), *sizes) == out.end())
      out.push_back(std::move(*sizes));
  return out;
}

}  // namespace peri::judge
