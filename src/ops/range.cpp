// Range: start, start + delta, ... while before limit. The length is known at shape inference if the inputs are.
#include <algorithm>
#include <optional>

#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/range_length.hpp"

namespace peri::ops {
namespace {
// ceil((limit - start) / delta) where the inputs are expressions with a delta of known value.
std::optional<Dim> symbolic_length(const Dim& start, const Dim& limit, const Dim& delta) {
  if (!delta.is_const() || delta.value() == 0 || delta.value() == INT64_MIN) return std::nullopt;
  const Dim span = delta.value() > 0 ? limit - start : start - limit;
  return max(ceildiv(span, Dim(std::abs(delta.value()))), Dim(0));
}
std::optional<double> scalar(const ir::Value* v) {
  if (!v->constant || v->constant->numel() != 1) return std::nullopt;
  return v->constant->f64(0);
}
Result<int64_t> float_length(double start, double limit, double delta) {
  const double n = std::ceil((limit - start) / delta);
  PERI_TRY(check_range_length(delta, n));
  return n < 0 ? 0 : static_cast<int64_t>(n);
}

Status infer(InferContext& c) {
  for (size_t i = 0; i < 3; ++i)
    if (c.rank(i) != 0 && !(c.rank(i) == 1 && c.shape(i)[0].is_const(1)))
      return invalid("the inputs of range must be scalars").but_found(shape_text(c.shape(i)));
  std::optional<Dim> length;
  const std::vector<Dim>*start = c.known(0), *limit = c.known(1), *delta = c.known(2);
  if (start && limit && delta) {
    if ((*delta)[0].is_const(0)) return invalid("range has a delta of 0");
    length = symbolic_length((*start)[0], (*limit)[0], (*delta)[0]);
  } else if (is_float(c.dtype(0))) {
    const auto s = scalar(c.node.in(0)), l = scalar(c.node.in(1)), d = scalar(c.node.in(2));
    if (s && l && d) {
      PERI_ASSIGN(length, float_length(*s, *l, *d));
    }
  }
  if (start && delta && length && length->is_const() && length->value() <= kMaxContent) {
    std::vector<Dim> elements;
    for (int64_t k = 0; k < length->value(); ++k) elements.push_back((*start)[0] + Dim(k) * (*delta)[0]);
    c.set_content(0, std::move(elements));
  }
  c.set(0, c.dtype(0), {length ? *length : c.fresh("range")});
  return Ok{};
}

Status reference(RefCall& call) {
  RefTensor& y = call.out[0];
  const RefTensor &start = *call.in[0], &limit = *call.in[1], &delta = *call.in[2];
  if (y.floating()) {
    PERI_ASSIGN(const int64_t n, float_length(start.f[0], limit.f[0], delta.f[0]));
    PERI_TRY(resize(y, {n}));
    for (int64_t k = 0; k < n; ++k) {
      const size_t at = static_cast<size_t>(k);
      y.f[at] = start.f[0] + static_cast<double>(k) * delta.f[0];
      // Implementations that keep adding delta round once a step.
      if (call.u != 0)
        y.radius[at] = start.r(0) + static_cast<double>(k) *
                                        (delta.r(0) + call.u * std::max(std::fabs(start.f[0]), std::fabs(y.f[at])));
    }
    return Ok{};
  }
  const std::optional<Dim> n = symbolic_length(Dim(start.i[0]), Dim(limit.i[0]), Dim(delta.i[0]));
  if (!n || !n->is_const()) return invalid("range has no finite length");
  PERI_TRY(check_range_length(static_cast<double>(delta.i[0]), static_cast<double>(n->value())));
  PERI_TRY(resize(y, {n->value()}));
  for (int64_t k = 0; k < n->value(); ++k) y.i[static_cast<size_t>(k)] = wrap(y.dtype, start.i[0] + k * delta.i[0]);
  return Ok{};
}
Cost cost(const ir::Node& node) {
  const double n = numel_of(node.out());
  return {n, 0, n * dtype_bits(node.out()->type.dtype) / 8.0};
}
}  // namespace

extern const Entry range_entry;
const Entry range_entry{{
    {.name = "range",
     .onnx = "Range",
     .versions = {11, 27},
     .inputs = {{"start", kFloats | types({DType::kI16, DType::kI32, DType::kI64})},
                {"limit", kNumbers, false, false, 0},
                {"delta", kNumbers, false, false, 0}},
     .outputs = {{"y"}},
     .attrs = {{"stash_type", AttrKind::kInt, false, "1"}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .samples =
         {"graph { const s: i64[] = [3]; const l: i64[] = [10]; const d: i64[] = [2]; y = range(s, l, d); output y }",
          "graph { const s: i32[] = [10]; const l: i32[] = [4]; const d: i32[] = [-2]; y = range(s, l, d); output y }",
          "graph { const s: f32[] = [0.5]; const l: f32[] = [2.1]; const d: f32[] = [0.25]; y = range(s, l, d); output "
          "y }",
          "graph { const s: i64[] = [5]; const l: i64[] = [5]; const d: i64[] = [1]; y = range(s, l, d); output y }"}},
}};
}  // namespace peri::ops
