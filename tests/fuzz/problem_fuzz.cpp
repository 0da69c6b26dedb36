// Any bytes as the text of a problem: refused, or a problem whose text parses back to the same problem, with the same
// weights, hash and name, whose canonical form is one too, and for which every kernel makes offers or refuses.
// links: kernels problem
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "device/target.hpp"
#include "kernels/entry.hpp"
#include "problem/problem.hpp"

namespace {
using peri::problem::Problem;

void check(bool holds) {
  if (!holds) std::abort();
}

void check_stable(const Problem& p) {
  const std::string said = peri::problem::text(p);
  const auto again = peri::problem::parse(said);
  check(again.ok());
  check(peri::problem::text(*again) == said);
  check(peri::problem::hash(*again) == peri::problem::hash(p));
  check(peri::problem::name(*again) == peri::problem::name(p));
  check(again->weights == p.weights);
}

// Sizes that a step may have: what a run would refuse no kernel is asked about.
bool plannable(const Problem& p) {
  constexpr int64_t kMaxElements = int64_t{1} << 31;
  for (const auto& v : p.graph.values()) {
    if (!v->type.known() || !peri::is_const(*v->type.shape)) return false;
    std::vector<int64_t> dims;
    for (const peri::Dim& d : *v->type.shape) dims.push_back(d.value());
    const auto count = peri::checked_numel(dims);
    if (!count.ok() || *count > kMaxElements) return false;
  }
  return !p.graph.nodes.empty() && !p.graph.outputs.empty();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto p = peri::problem::parse({reinterpret_cast<const char*>(data), size});
  if (!p.ok()) {
    check(p.error().kind != peri::ErrorKind::kInternal);
    return 0;
  }
  check(p->weights.size() == p->graph.inputs.size());
  check_stable(*p);
  Problem canonical{peri::problem::canonical(p->graph), p->weights};
  check_stable(canonical);
  if (!plannable(canonical)) return 0;
  for (const peri::kernels::Kernel* k : peri::kernels::kernels()) {
    const auto offers = k->offer({&canonical.graph, canonical.weights}, peri::device::this_cpu());
    if (!offers.ok()) check(offers.error().kind != peri::ErrorKind::kInternal);
  }
  return 0;
}
