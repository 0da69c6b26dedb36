// The search for another kernel.
#include "exec/region/other_kernel.hpp"

#include <algorithm>
#include <cmath>

#include "problem/problem.hpp"

namespace peri::exec {

namespace {
bool same_layouts(const std::vector<ir::Layout>& offered, const std::vector<ir::Value*>& values) {
  for (size_t k = 0; k < values.size(); ++k)
    if (!((k < offered.size() ? offered[k] : ir::Layout{}) == values[k]->type.layout)) return false;
  return true;
}

// Kernels take no empty tensors; which sizes of a file are 0 is not known before its regions are bound.
bool has_empty(const ir::Graph& graph) {
  return std::any_of(graph.values().begin(), graph.values().end(), [](const auto& v) {
    return v->type.shape &&
           std::any_of(v->type.shape->begin(), v->type.shape->end(), [](const Dim& d) { return d.is_const(0); });
  });
}
}  // namespace

OtherKernel other_kernel(std::string_view executor, const kernels::Kernel* refusing, const kernels::Problem& problem,
                         const kernels::InstantiateContext& context,
                         const std::function<bool(const kernels::Kernel&, const kernels::Instance&)>& serves) {
  if (has_empty(*problem.graph)) return {};
  ir::Graph plain = problem.graph->clone();
  for (auto* const list : {&plain.inputs, &plain.outputs})
    for (ir::Value* const v : *list) v->type.layout = {};
  std::vector<std::pair<const kernels::Kernel*, kernels::Offer>> all;
  for (const kernels::Kernel* const other : kernels::kernels()) {
    if (other == refusing || other->executor != executor || !other->library.empty() || !other->offer) continue;
    auto offers = other->offer({&plain, problem.constant}, *context.target);
    if (!offers.ok()) continue;
    for (kernels::Offer& o : *offers)
      if (same_layouts(o.inputs, problem.graph->inputs) && same_layouts(o.outputs, problem.graph->outputs))
        all.emplace_back(other, std::move(o));
  }
  const auto expected = [](const auto& a) { return a.second.guess_ms > 0 ? a.second.guess_ms : HUGE_VAL; };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return expected(a) < expected(b); });
  for (auto& [other, o] : all) {
    kernels::Packed none;
    kernels::InstantiateContext own = context;
    own.packed = &none;
    own.store = nullptr;
    auto made = other->instantiate(problem, o.config, own);
    if (made.ok() && serves(*other, **made)) return {other, o.config, *std::move(made)};
  }
  return {};
}

}  // namespace peri::exec
