// Sizes other than the tuned ones at which a choice must be valid.
#include "lower/region.hpp"

namespace peri::lower {

namespace {
// Nothing is empty there that is not at the tuned dims: kernels take no empty tensors, and models no such sizes.
bool nothing_vanishes(const ir::Graph& graph, const DimBinding& tuned_for, const DimBinding& at) {
  for (const auto& v : graph.values()) {
    if (!v->type.shape) continue;
    for (const Dim& d : *v->type.shape) {
      if (d.is_const()) continue;
      const auto here = d.eval(tuned_for), there = d.eval(at);
      if (here.ok() && *here > 0 && !(there.ok() && *there > 0)) return false;
    }
  }
  return true;
}
}  // namespace

DimBinding other_dims(const ir::Graph& graph, const DimBinding& tuned_for) {
  // Dims that are multiples of no other; where windows need more, so many times that.
  static constexpr int64_t kPrimes[] = {3, 37, 5, 7, 11, 13, 17, 19}, kTimes[] = {11, 101, 1009, 10007};
  DimBinding small;
  size_t k = 0;
  for (const auto& [name, value] : tuned_for) small[name] = kPrimes[k++ % std::size(kPrimes)];
  if (nothing_vanishes(graph, tuned_for, small)) return small;
  for (const int64_t times : kTimes) {
    DimBinding all = small;
    for (const auto& [name, value] : small) {
      DimBinding one = small;
      all[name] = one[name] = value * times;
      if (nothing_vanishes(graph, tuned_for, one)) return one;
    }
    if (nothing_vanishes(graph, tuned_for, all)) return all;
  }
  return small;
}

}  // namespace peri::lower
