// Unique: the distinct elements (or slices along an axis), ascending or by first occurrence, the index of each first
// occurrence, the inverse mapping, and the counts. NaNs are equal to each other and larger than any number.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/reference/elements.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Dim count = c.fresh("unique");
  Shape y = {count};
  Dim length = product(c.shape(0));
  if (c.node.has("axis")) {
    PERI_ASSIGN(const int64_t axis, normalize_axis(c.node.i("axis"), c.rank(0)));
    y = c.shape(0);
    length = y[static_cast<size_t>(axis)];
    y[static_cast<size_t>(axis)] = count;
  }
  c.set(0, c.dtype(0), std::move(y));
  c.set(1, DType::kI64, {count});
  c.set(2, DType::kI64, {length});
  c.set(3, DType::kI64, {count});
  return Ok{};
}

int compare(const RefTensor& x, int64_t a, int64_t b) {
  const size_t i = static_cast<size_t>(a), j = static_cast<size_t>(b);
  if (x.dtype == DType::kString) return x.s[i].compare(x.s[j]);
  if (!x.floating()) return int_less(x.dtype, x.i[i], x.i[j]) ? -1 : int_less(x.dtype, x.i[j], x.i[i]) ? 1 : 0;
  const bool p = std::isnan(x.f[i]), q = std::isnan(x.f[j]);
  if (p || q) return static_cast<int>(p) - static_cast<int>(q);
  return x.f[i] < x.f[j] ? -1 : x.f[i] > x.f[j] ? 1 : 0;
}

// x[outer, length, inner]: slice k holds the elements of all (outer, inner).
struct Slices {
  const RefTensor& x;
  int64_t outer = 1, length, inner = 1;
  int64_t at(int64_t o, int64_t k, int64_t e) const { return (o * length + k) * inner + e; }
  int order(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t e = 0; e < inner; ++e)
        if (const int c = compare(x, at(o, a, e), at(o, b, e)); c != 0) return c;
    return 0;
  }
};

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  std::vector<int64_t> dims = {x.numel()};
  Slices s{x, 1, x.numel(), 1};
  size_t axis = 0;
  if (call.node.has("axis")) {
    dims = x.dims;
    axis = static_cast<size_t>(*normalize_axis(call.node.i("axis"), dims.size()));
    s.outer = span_of(dims, 0, axis);
    s.length = dims[axis];
    s.inner = span_of(dims, axis + 1, dims.size());
  }
  std::vector<int64_t> order(static_cast<size_t>(s.length));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return s.order(a, b) < 0; });
  std::vector<int64_t> first, count, of(order.size());  // per group in ascending order
  for (size_t k = 0; k < order.size(); ++k) {
    if (k == 0 || s.order(order[k - 1], order[k]) != 0) {
      first.push_back(order[k]);
      count.push_back(0);
    }
    ++count.back();
    of[static_cast<size_t>(order[k])] = static_cast<int64_t>(first.size()) - 1;
  }
  std::vector<int64_t> shown(first.size()), rank(first.size());  // groups as they are shown, and the inverse
  std::iota(shown.begin(), shown.end(), 0);
  if (call.node.i("sorted", 1) == 0)
    std::sort(shown.begin(), shown.end(),
              [&](int64_t a, int64_t b) { return first[static_cast<size_t>(a)] < first[static_cast<size_t>(b)]; });
  for (size_t k = 0; k < shown.size(); ++k) rank[static_cast<size_t>(shown[k])] = static_cast<int64_t>(k);
  const int64_t groups = static_cast<int64_t>(first.size());
  dims[axis] = groups;
  PERI_TRY(resize(call.out[0], dims));
  if (call.out.size() > 1) PERI_TRY(resize(call.out[1], {groups}));
  if (call.out.size() > 2) PERI_TRY(resize(call.out[2], {s.length}));
  if (call.out.size() > 3) PERI_TRY(resize(call.out[3], {groups}));
  for (int64_t k = 0; k < groups; ++k) {
    const size_t at = static_cast<size_t>(k), group = static_cast<size_t>(shown[at]);
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t e = 0; e < s.inner; ++e)
        copy_element(x, s.at(o, first[group], e), call.out[0], (o * groups + k) * s.inner + e);
    if (call.out.size() > 1) call.out[1].i[at] = first[group];
    if (call.out.size() > 3) call.out[3].i[at] = count[group];
  }
  for (size_t k = 0; call.out.size() > 2 && k < of.size(); ++k) call.out[2].i[k] = rank[static_cast<size_t>(of[k])];
  return Ok{};
}

constexpr TypeSet kI64 = types({DType::kI64});

}  // namespace

extern const Entry unique_entry;
const Entry unique_entry{{
    {.name = "unique",
     .onnx = "Unique",
     .versions = {11, 28},
     .inputs = {{"x", kMovable}},
     .outputs = {{"y"}, {"indices", kI64, true}, {"inverse_indices", kI64, true}, {"counts", kI64, true}},
     .attrs = {{"axis", AttrKind::kInt, false, "flattened"}, {"sorted", AttrKind::kInt, false, "1"}},
     .infer = infer,
     .reference = reference,
     .jumps = true,
     .samples =
         {"graph { const x: f32[6] = [2.0, 1.0, nan, 3.0, nan, 1.0]; y, i, v, c = unique(x); output y; output i; "
          "output "
          "v; output c }",
          "graph { input x: i32[2,5]; y, i, v, c = unique(x) {sorted=0}; output y; output i; output v; output c }",
          "graph { input x: i64[3,2,2]; y, i, v, c = unique(x) {axis=-2}; output y; output i; output v; output c }",
          "graph { input x: f32[0]; y = unique(x); output y }", "graph { input x: bool[]; y = unique(x); output y }",
          "graph { input x: u8[4,3]; y = unique(x) {axis=0, sorted=0}; output y }"}},
}};
}  // namespace peri::ops
