// LRN: y = x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta.
#include <algorithm>

#include "ops/reference/cost.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() < 2)
    return invalid("x has a wrong rank").expecting("[batch, channels, spatial...], rank >= 2").but_found(shape_text(x));
  if (const int64_t size = c.node.i("size"); size < 1)
    return invalid("size is out of range").expecting(">= 1").but_found(std::to_string(size));
  c.set(0, c.dtype(0), x);
  return Ok{};
}

// Channels [first, last] around c.
std::pair<int64_t, int64_t> neighbours(int64_t c, int64_t channels, int64_t size) {
  const int64_t before = (size - 1) / 2, after = size - 1 - before;
  return {std::max<int64_t>(c - before, 0), after > channels ? channels - 1 : std::min(c + after, channels - 1)};
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  if (x.numel() == 0) return Ok{};
  const int64_t size = call.node.i("size"), channels = x.dims[1], image = span_of(x.dims, 2, x.dims.size());
  const double alpha = call.node.f("alpha", 1e-4F) / static_cast<double>(size), beta = call.node.f("beta", 0.75),
               bias = call.node.f("bias", 1), u = call.u;
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = call.position(n), c = at / image % channels;
      const auto [first, last] = neighbours(c, channels, size);
      double squares = 0, spread = 0;
      for (int64_t k = first; k <= last; ++k) {
        const int64_t p = at + (k - c) * image;
        const double v = x.f[static_cast<size_t>(p)], r = x.r(p);
        squares += v * v;
        spread += (2 * std::fabs(v) + r) * r;
      }
      const double base = bias + alpha * squares, f = std::pow(base, -beta);
      Near factor{f, 0};
      if (u > 0) {
        const double r = std::fabs(alpha) * (spread + sum_radius(u, last - first + 2, squares)) +
                         4 * u * (std::fabs(bias) + std::fabs(alpha) * squares);
        factor.r = std::max(std::fabs(std::pow(base + r, -beta) - f),
                            base - r > 0 ? std::fabs(std::pow(base - r, -beta) - f) : 0) +
                   8 * u * f * (1 + std::fabs(beta * std::log(std::fabs(base))));
      }
      Near y = times(element(&x, at, 0), factor);
      y.r += 4 * u * std::fabs(y.v);
      store(call.out[0], at, y);
    }
  });
  return Ok{};
}

bool pull(const ir::Node& node, size_t, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const std::vector<int64_t> x = concrete(*node.in(0));
  const int64_t image = span_of(x, 2, x.size());
  PositionSet set(span_of(x, 0, x.size()));
  for (int64_t p : positions) {
    const int64_t c = p / image % x[1];
    const auto [first, last] = neighbours(c, x[1], node.i("size"));
    set.add_range(p + (first - c) * image, p + (last - c) * image + 1, image);
  }
  set.list(needed);
  return true;
}

Cost cost(const ir::Node& node) { return cost_per_element(node, 2 * static_cast<double>(node.i("size")) + 10); }

}  // namespace

extern const Entry lrn_entry;
const Entry lrn_entry{{
    {.name = "lrn",
     .onnx = "LRN",
     .versions = {1, 13},
     .inputs = {{"x", kFloats}},
     .outputs = {{"y"}},
     .attrs = {{"alpha", AttrKind::kFloat, false, "0.0001"},
               {"beta", AttrKind::kFloat, false, "0.75"},
               {"bias", AttrKind::kFloat, false, "1"},
               {"size", AttrKind::kInt, true}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .keeps_range = true,
     .samples = {"graph { input x: f32[2,7,3,3]; y = lrn(x) {alpha=0.5, beta=0.5, bias=2.0, size=3}; output y }",
                 "graph { input x: f32[1,5,4]; y = lrn(x) {alpha=0.1, size=4}; output y }",
                 "graph { input x: f32[2,3]; y = lrn(x) {size=9}; output y }",
                 "graph { input x: f16[1,8,2,2]; y = lrn(x) {size=5}; output y }",
                 "graph { input x: f32[0,3,2]; y = lrn(x) {size=3}; output y }"}},
}};
}  // namespace peri::ops
