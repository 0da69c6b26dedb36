// GlobalAveragePool, GlobalMaxPool, GlobalLpPool: one number per channel of an image. A NaN in the channel gives NaN.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/reference/cost.hpp"
#include "ops/reference/lp.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/pool.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

// One output for each image: f(x, first, count) gives a Near.
template <class F>
Status each_image(RefCall& call, F f) {
  const RefTensor& x = *call.in[0];
  const int64_t image = span_of(x.dims, 2, x.dims.size());
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) store(call.out[0], call.position(n), f(x, call.position(n) * image, image));
  });
  return Ok{};
}

Status average(RefCall& call) {
  return each_image(call, [&](const RefTensor& x, int64_t first, int64_t count) {
    double sum = 0, magnitude = 0, spread = 0;
    for (int64_t k = first; k < first + count; ++k) {
      sum += x.f[static_cast<size_t>(k)];
      magnitude += std::fabs(x.f[static_cast<size_t>(k)]);
      spread += x.r(k);
    }
    const double n = static_cast<double>(count);
    return Near{sum / n, (sum_radius(call.u, count + 1, magnitude) + spread) / n};
  });
}

Status maximum(RefCall& call) {
  return each_image(call, [&](const RefTensor& x, int64_t first, int64_t count) {
    Near best{-std::numeric_limits<double>::infinity(), 0};
    for (int64_t k = first; k < first + count; ++k) {
      const double v = x.f[static_cast<size_t>(k)];
      if (v > best.v || std::isnan(v)) best.v = v;
      best.r = std::max(best.r, x.r(k));
      if (std::isnan(best.v)) break;
    }
    return best;
  });
}

Status norm(RefCall& call) {
  const int64_t p = call.node.i("p", 2);
  return each_image(call, [&](const RefTensor& x, int64_t first, int64_t count) {
    LpSum sum(p, call.u);
    for (int64_t k = first; k < first + count; ++k) sum.add(x.f[static_cast<size_t>(k)], x.r(k));
    return sum.root();
  });
}

Status infer_lp(InferContext& c) {
  if (c.node.i("p", 2) < 1)
    return invalid("p is out of range").expecting(">= 1").but_found(std::to_string(c.node.i("p", 2)));
  return infer_global_pool(c);
}

Cost cost(const ir::Node& node) { return cost_per_element(node, 1); }

}  // namespace

extern const Entry global_pool_entry;
const Entry global_pool_entry{{
    {.name = "global_average_pool",
     .onnx = "GlobalAveragePool",
     .versions = {1, 22},
     .inputs = {{"x", kFloats}},
     .outputs = {{"y"}},
     .infer = infer_global_pool,
     .reference = average,
     .pull = pull_global_pool,
     .cost = cost,
     .anchor = true,
     .keeps_range = true,
     .any_size = any_size_of_batch,
     .samples = {"graph { input x: f32[2,3,7,7]; y = global_average_pool(x); output y }",
                 "graph { input x: f32[1,5,1,1]; y = global_average_pool(x); output y }",
                 "graph { input x: f32[2,3,9]; y = global_average_pool(x); output y }",
                 "graph { input x: f16[1,4,8,8]; y = global_average_pool(x); output y }",
                 "graph { input x: f32[0,3,2,2]; y = global_average_pool(x); output y }"}},
    {.name = "global_max_pool",
     .onnx = "GlobalMaxPool",
     .versions = {1, 22},
     .inputs = {{"x", kFloats}},
     .outputs = {{"y"}},
     .infer = infer_global_pool,
     .reference = maximum,
     .pull = pull_global_pool,
     .cost = cost,
     .moves = true,
     .keeps_range = true,
     .any_size = any_size_of_batch,
     .samples = {"graph { input x: f32[2,3,7,7]; y = global_max_pool(x); output y }",
                 "graph { input x: f16[2,3,9]; y = global_max_pool(x); output y }",
                 "graph { input x: f32[0,3,2,2]; y = global_max_pool(x); output y }"}},
    {.name = "global_lp_pool",
     .onnx = "GlobalLpPool",
     .versions = {2, 22},
     .inputs = {{"x", kFloats}},
     .outputs = {{"y"}},
     .attrs = {{"p", AttrKind::kInt, false, "2"}},
     .infer = infer_lp,
     .reference = norm,
     .pull = pull_global_pool,
     .cost = cost,
     .samples = {"graph { input x: f32[2,3,7,7]; y = global_lp_pool(x); output y }",
                 "graph { input x: f32[2,3,9]; y = global_lp_pool(x) {p=1}; output y }",
                 "graph { input x: f32[2,3,4,4]; y = global_lp_pool(x) {p=3}; output y }"}},
}};
}  // namespace peri::ops
