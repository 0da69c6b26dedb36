// LpNormalization: lines along one axis divided by their 1- or 2-norm; a line of zeros stays zero.
#include <algorithm>

#include "ops/reference/cost.hpp"
#include "ops/reference/lp.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  PERI_TRY(normalize_axis(c.node.i("axis", -1), c.rank(0)));
  if (const int64_t p = c.node.i("p", 2); p != 1 && p != 2)
    return invalid("p is out of range").expecting("1 or 2").but_found(std::to_string(p));
  c.set(0, c.dtype(0), c.shape(0));
  return Ok{};
}

// x[outer, length, inner].
struct Lines {
  int64_t length, inner;
  Lines(const ir::Node& node, const std::vector<int64_t>& x) {
    const size_t axis = static_cast<size_t>(*normalize_axis(node.i("axis", -1), x.size()));
    length = x[axis];
    inner = span_of(x, axis + 1, x.size());
  }
  int64_t first(int64_t p) const { return p / (length * inner) * length * inner + p % inner; }
};

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  if (x.numel() == 0) return Ok{};
  const Lines l(call.node, x.dims);
  const int64_t p = call.node.i("p", 2);
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    std::vector<Near> held(static_cast<size_t>(l.inner));
    int64_t held_outer = -1;
    std::vector<char> known(held.size());
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = call.position(n), outer = at / (l.length * l.inner);
      if (outer != held_outer) std::fill(known.begin(), known.end(), 0);
      held_outer = outer;
      Near& norm = held[static_cast<size_t>(at % l.inner)];
      if (char& k = known[static_cast<size_t>(at % l.inner)]; !k) {
        LpSum sum(p, call.u);
        for (int64_t e = 0; e < l.length; ++e)
          sum.add(x.f[static_cast<size_t>(l.first(at) + e * l.inner)], x.r(l.first(at) + e * l.inner));
        norm = sum.root();
        k = 1;
      }
      const double v = x.f[static_cast<size_t>(at)], y = norm.v == 0 ? 0 : v / norm.v;
      // |y| <= 1 whatever the norm is, so the radius never needs to be more than 2.
      const double r =
          norm.v > norm.r ? (x.r(at) + std::fabs(y) * norm.r) / (norm.v - norm.r) + 4 * call.u * std::fabs(y) : 2;
      store(call.out[0], at, {y, call.u == 0 && norm.r == 0 && x.r(at) == 0 ? 0 : r});
    }
  });
  return Ok{};
}

bool pull(const ir::Node& node, size_t, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const std::vector<int64_t> x = concrete(*node.in(0));
  const Lines l(node, x);
  PositionSet set(span_of(x, 0, x.size()));
  for (int64_t p : positions) set.add_range(l.first(p), l.first(p) + l.length * l.inner, l.inner);
  set.list(needed);
  return true;
}

Cost cost(const ir::Node& node) { return cost_per_element(node, 3); }

}  // namespace

extern const Entry lp_normalization_entry;
const Entry lp_normalization_entry{{
    {.name = "lp_normalization",
     .onnx = "LpNormalization",
     .versions = {1, 22},
     .inputs = {{"x", kFloats}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, false, "-1"}, {"p", AttrKind::kInt, false, "2"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .samples = {"graph { input x: f32[3,5]; y = lp_normalization(x); output y }",
                 "graph { input x: f32[2,4,3]; y = lp_normalization(x) {axis=1, p=1}; output y }",
                 "graph { input x: f32[4,3]; y = lp_normalization(x) {axis=0}; output y }",
                 "graph { input x: f32[0,3]; y = lp_normalization(x); output y }"}},
}};
}  // namespace peri::ops
