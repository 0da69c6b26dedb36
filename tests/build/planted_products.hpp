// Planted kernels for products and the relu after them, with planted costs, and builds that choose among them alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.hpp"
#include "build/build.hpp"
#include "exec/entry.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::build {

// Delays of the planted kernels in ms, for problems that are not small samples.
enum Which { kLong, kShort, kRest, kPlain, kBlocked, kTogether, kKernels };
inline double cost_ms[kKernels] = {};
inline double slow_phase_ms = 0;  // added to the long one until the rest has run for the first time

inline void spend(Which which) {
  const int64_t start = now_ns();
  if (which == kRest) slow_phase_ms = 0;
  const double ms = which == kLong && slow_phase_ms > 0 ? slow_phase_ms : cost_ms[which];
  while (seconds_since(start) * 1e3 < ms) {}
}

// x w for each w.
struct Product {
  Which which;
  int64_t m, k;
  std::vector<int64_t> widths;
  void operator()(int64_t, const kernels::Args& args) const {
    if (m >= 16) spend(which);
    const float* x = static_cast<const float*>(args.in[0]);
    for (size_t one = 0; one < widths.size(); ++one) {
      const int64_t n = widths[one];
      const float* w = static_cast<const float*>(args.in[one + 1]);
      float* y = static_cast<float*>(args.out[one]);
      for (int64_t at = 0; at < m * n; ++at) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum += static_cast<double>(x[at / n * k + p]) * static_cast<double>(w[p * n + at % n]);
        y[at] = static_cast<float>(which == kLong ? std::max(sum, 0.0) : sum);
      }
    }
  }
};

inline bool plain_matrices(const kernels::Problem& p, size_t inputs) {
  const ir::Graph& g = *p.graph;
  return g.inputs.size() == inputs && p.constant == std::vector<bool>(inputs, false) &&
         std::all_of(g.inputs.begin(), g.inputs.end(),
                     [](const ir::Value* v) { return v->type.dtype == DType::kF32 && v->type.rank() == 2; });
}

// x w, with or without the relu after it.
template <Which kWhich>
Result<std::vector<kernels::Offer>> offer_product(const kernels::Problem& p, const device::Target& target) {
  const ir::Graph& g = *p.graph;
  const bool long_one = kWhich == kLong;
  if (g.nodes.size() != (long_one ? 2u : 1u) || g.nodes[0]->op != "matmul" || !plain_matrices(p, 2) ||
      (long_one && g.nodes[1]->op != "relu"))
    return refused("another region");
  return std::vector<kernels::Offer>{kernels::row_major_offer(p, target)};
}
template <Which kWhich>
Result<std::unique_ptr<kernels::Instance>> make_product(const kernels::Problem& p, std::string_view,
                                                        const kernels::InstantiateContext&) {
  const std::vector<int64_t> a = kernels::dims_of(*p.graph->inputs[0]);
  std::vector<int64_t> widths;
  for (const ir::Value* v : p.graph->outputs) widths.push_back(kernels::dims_of(*v)[1]);
  return kernels::TaskInstance::make(1, 0, Product{kWhich, a[0], a[1], widths});
}

inline Result<std::vector<kernels::Offer>> offer_relu(const kernels::Problem& p, const device::Target& target) {
  if (p.graph->nodes.size() != 1 || p.graph->nodes[0]->op != "relu" || !plain_matrices(p, 1))
    return refused("another region");
  return std::vector<kernels::Offer>{kernels::row_major_offer(p, target)};
}
inline Result<std::unique_ptr<kernels::Instance>> make_relu(const kernels::Problem& p, std::string_view,
                                                            const kernels::InstantiateContext&) {
  const std::vector<int64_t> d = kernels::dims_of(*p.graph->inputs[0]);
  return kernels::TaskInstance::make(1, 0, [rows = d[0], n = d[0] * d[1]](int64_t, const kernels::Args& args) {
    if (rows >= 16) spend(kRest);
    const float* x = static_cast<const float*>(args.in[0]);
    for (int64_t k = 0; k < n; ++k) static_cast<float*>(args.out[0])[k] = std::max(x[k], 0.0f);
  });
}

inline kernels::Kernel kernel(std::string_view name, decltype(kernels::Kernel::offer) offer,
                              decltype(kernels::Kernel::instantiate) make, std::string_view sample) {
  return {.name = name,
          .provider = "planted",
          .takes = "what a test plants",
          .offer = offer,
          .instantiate = make,
          .samples = {sample}};
}
inline const kernels::Kernel kLongKernel =
    kernel("long", offer_product<kLong>, make_product<kLong>,
           "graph { input x: f32[2,3]; input w: f32[3,4]; p = matmul(x, w); y = relu(p); output y }");
inline const kernels::Kernel kShortKernel =
    kernel("short", offer_product<kShort>, make_product<kShort>,
           "graph { input x: f32[2,3]; input w: f32[3,4]; y = matmul(x, w); output y }");
inline const kernels::Kernel kRestKernel =
    kernel("rest", offer_relu, make_relu, "graph { input x: f32[2,3]; y = relu(x); output y }");
inline Options options() {
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  Options o;
  o.executors = kTable;
  o.compile.model = "planted";
  o.compile.builder = "peri test";
  o.compile.tune.provider = "planted";
  o.compile.tune.budget_ms = 20;
  return o;
}

inline compile::Imported model(std::string_view text) {
  compile::Imported m;
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok()) << text;
  m.graph = std::move(*g);
  return m;
}

// The kernels chosen, in order, without conversions of layout.
inline std::vector<std::string> kernels_of(const Built& b) {
  std::vector<std::string> out;
  for (const auto& step : b.compiled.steps)
    if (!step.conversion) out.push_back(step.chosen.substr(0, step.chosen.find('@')));
  return out;
}

using Names = std::vector<std::string>;
class Choice : public testing::Test {
 protected:
  const kernels::AddedKernel long_{kLongKernel}, short_{kShortKernel}, rest_{kRestKernel};
  void costs(double of_long, double of_short, double of_rest) {
    cost_ms[kLong] = of_long;
    cost_ms[kShort] = of_short;
    cost_ms[kRest] = of_rest;
  }
};

}  // namespace peri::build
