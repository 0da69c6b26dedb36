// TopK: the k largest (or smallest) elements of each line, best first, and their indices. Of equal elements the one
// with the lower index comes first; NaN counts as larger than any number. The result is sorted even where `sorted` is
// 0.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/reference/elements.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {

// Before version 10 k was an attribute.
Status upgrade(ir::Graph& graph, ir::Node& node, int) {
  auto it = node.attrs.find("k");
  if (it == node.attrs.end()) return Ok{};
  const auto* k = std::get_if<int64_t>(&it->second);
  if (!k) return invalid("attribute 'k' of TopK must be an integer").at_node(node.name);
  const std::vector<int64_t> values = {*k};
  put_input(graph, node, 1, ints_constant(graph, "k", values));
  node.attrs.erase("k");
  return Ok{};
}

Status infer(InferContext& c) {
  Shape y = c.shape(0);
  PERI_ASSIGN(const int64_t axis, normalize_axis(c.node.i("axis", -1), y.size()));
  if (c.rank(1) > 1 || (c.rank(1) == 1 && c.shape(1)[0].is_const() && !c.shape(1)[0].is_const(1)))
    return invalid("k has a wrong shape").expecting("[1]").but_found(shape_text(c.shape(1)));
  Dim& extent = y[static_cast<size_t>(axis)];
  const std::vector<Dim>* known = c.known(1);
  const Dim k = known && known->size() == 1 ? known->front() : c.fresh("top_k");
  if (k.is_const() && (k.value() < 0 || (extent.is_const() && k.value() > extent.value())))
    return invalid("k is out of range").expecting("[0, " + extent.text() + "]").but_found(k.text());
  extent = k;
  c.set(1, DType::kI64, y);
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

// Does element a of x come before element b?
struct Before {
  const RefTensor& x;
  bool largest;
  bool operator()(int64_t a, int64_t b) const {
    const size_t i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    if (x.floating()) {
      const double p = x.f[i], q = x.f[j];
      const bool less = std::isnan(q) ? !std::isnan(p) : p < q, more = std::isnan(p) ? !std::isnan(q) : p > q;
      if (less || more) return largest ? more : less;
    } else if (x.i[i] != x.i[j]) {
      return int_less(x.dtype, x.i[i], x.i[j]) != largest;
    }
    return a < b;
  }
};

// x[outer, length, inner].
struct Lines {
  int64_t length, inner;
  Lines(const ir::Node& node, const std::vector<int64_t>& x) {
    const size_t axis = static_cast<size_t>(*normalize_axis(node.i("axis", -1), x.size()));
    length = x[axis];
    inner = span_of(x, axis + 1, x.size());
  }
};

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  const size_t axis = static_cast<size_t>(*normalize_axis(call.node.i("axis", -1), x.dims.size()));
  const Lines l(call.node, x.dims);
  const int64_t k = call.in[1]->i[0];
  if (k < 0 || k > l.length)
    return invalid("k is out of range").expecting("[0, " + std::to_string(l.length) + "]").but_found(std::to_string(k));
  std::vector<int64_t> dims = x.dims;
  dims[axis] = k;
  for (RefTensor& t : call.out)
    if (t.dims != dims) PERI_TRY(resize(t, dims));
  if (call.out[0].numel() == 0) return Ok{};
  PositionSet asked(call.out[0].numel() / k);
  for (int64_t p : call.positions) asked.add(p / (k * l.inner) * l.inner + p % l.inner);
  std::vector<int64_t> order(static_cast<size_t>(l.length));
  for (int64_t line = 0; line < x.numel() / l.length; ++line) {
    if (!call.positions.empty() && !asked.contains(line)) continue;
    const int64_t first = line / l.inner * l.length * l.inner + line % l.inner,
                  to = line / l.inner * k * l.inner + line % l.inner;
    double spread = 0;
    for (int64_t e = 0; e < l.length; ++e) {
      order[static_cast<size_t>(e)] = first + e * l.inner;
      spread = std::max(spread, x.floating() ? x.r(first + e * l.inner) : 0);
    }
    std::partial_sort(order.begin(), order.begin() + k, order.end(), Before{x, call.node.i("largest", 1) != 0});
    for (int64_t e = 0; e < k; ++e) {
      const int64_t from = order[static_cast<size_t>(e)], at = to + e * l.inner;
      copy_element(x, from, call.out[0], at);
      if (x.floating())
        call.out[0].radius[static_cast<size_t>(at)] = spread;  // the e-th largest moves by at most the largest radius
      if (call.out.size() > 1) call.out[1].i[static_cast<size_t>(at)] = (from - first) / l.inner;
    }
  }
  return Ok{};
}

// From none to all elements of a line.
std::vector<Dim> index_ends(const ir::Node& node) {
  std::vector<Dim> out = axis_end(node, -1);
  for (Dim& d : out) d = d + 1;
  return out;
}

Cost cost(const ir::Node& node) {
  Cost c = cost_move(node);
  c.bytes_read = numel_of(node.in(0)) * dtype_bits(node.in(0)->type.dtype) / 8.0;
  c.flops = 4 * numel_of(node.in(0));
  return c;
}

}  // namespace

extern const Entry top_k_entry;
const Entry top_k_entry{{
    {.name = "top_k",
     .onnx = "TopK",
     .versions = {1, 10, 11, 24},
     .inputs = {{"x", kNumbers}, {"k", types({DType::kI64}), false, false, -1, Role::kIndex}},
     .outputs = {{"values"}, {"indices", types({DType::kI64})}},
     .attrs = {{"axis", AttrKind::kInt, false, "-1"},
               {"largest", AttrKind::kInt, false, "1"},
               {"sorted", AttrKind::kInt, false, "1"}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .jumps = true,
     .moves = true,
     .index_ends = index_ends,
     .samples =
         {"graph { input x: f32[3,9]; const k: i64[1] = [4]; v, i = top_k(x, k); output v; output i }",
          "graph { input x: f32[4,3,2]; const k: i64[1] = [2]; v, i = top_k(x, k) {axis=0, largest=0}; output v; "
          "output i }",
          "graph { input x: i32[2,12]; const k: i64[1] = [12]; v, i = top_k(x, k) {axis=1}; output v; output i }",
          "graph { input x: f16[5]; const k: i64[1] = [1]; v, i = top_k(x, k) {sorted=0}; output v; output i }",
          "graph { input x: f32[2,3]; const k: i64[1] = [0]; v, i = top_k(x, k); output v; output i }"}},
}};
}  // namespace peri::ops
