// Min, max, sum and mean of any number of broadcast inputs. A NaN in any input of min and max gives NaN.
#include <algorithm>

#include "ops/reference/binary.hpp"
#include "ops/reference/dense.hpp"

namespace peri::ops {
namespace {
// Folds the inputs that stand over each output position: start with the first, then step(accumulator, element, radius).
template <class Float, class Int>
Status fold(RefCall& call, Float float_step, Int int_step) {
  RefTensor& y = call.out[0];
  std::vector<Under> under;
  for (const RefTensor* t : call.in) under.emplace_back(t->dims, y.dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    copy_element(*call.in[0], under[0](p), y, p);
    for (size_t k = 1; k < call.in.size(); ++k) {
      const int64_t at = under[k](p);
      const size_t to = static_cast<size_t>(p), from = static_cast<size_t>(at);
      if (y.floating()) {
        y.f[to] = float_step(y.f[to], call.in[k]->f[from]);
        y.radius[to] = std::max(y.radius[to], call.in[k]->r(at));
      } else {
        y.i[to] = int_step(y.dtype, y.i[to], call.in[k]->i[from]);
      }
    }
  }
  return Ok{};
}
Status min_reference(RefCall& call) {
  return fold(
      call, [](double a, double b) { return std::isnan(a) || a < b ? a : b; },
      [](DType t, int64_t a, int64_t b) { return int_less(t, b, a) ? b : a; });
}
Status max_reference(RefCall& call) {
  return fold(
      call, [](double a, double b) { return std::isnan(a) || a > b ? a : b; },
      [](DType t, int64_t a, int64_t b) { return int_less(t, a, b) ? b : a; });
}

Status add_up(RefCall& call, double scale) {
  RefTensor& y = call.out[0];
  std::vector<Under> under;
  for (const RefTensor* t : call.in) under.emplace_back(t->dims, y.dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    double sum = 0, magnitudes = 0, radius = 0;
    for (size_t k = 0; k < call.in.size(); ++k) {
      const int64_t at = under[k](p);
      const double v = call.in[k]->f[static_cast<size_t>(at)];
      sum = k ? sum + v : v;
      magnitudes += std::fabs(v);
      radius += call.in[k]->r(at);
    }
    y.f[static_cast<size_t>(p)] = sum * scale;
    if (call.u == 0 || !std::isfinite(sum)) continue;
    const auto terms = static_cast<int64_t>(call.in.size());
    const double own = terms > 1 ? sum_radius(call.u, terms, magnitudes) + steady_radius(call.u, terms, sum) : 0;
    y.radius[static_cast<size_t>(p)] = (radius + own) * scale + (scale == 1 ? 0 : rounding(call, 2, sum * scale));
  }
  return Ok{};
}
Status sum_reference(RefCall& call) { return add_up(call, 1); }
Status mean_reference(RefCall& call) { return add_up(call, 1.0 / static_cast<double>(call.in.size())); }

// peri::min and peri::max of dimension expressions, folded.
template <auto F>
Status infer_fold(InferContext& c) {
  PERI_TRY(infer_broadcast(c));
  if (!is_integer(c.dtype(0))) return Ok{};
  content_elementwise(c, [](const std::vector<Dim>& v) -> std::optional<Dim> {
    Dim out = v[0];
    for (size_t k = 1; k < v.size(); ++k) out = F(out, v[k]);
    return out;
  });
  return Ok{};
}

OpDef variadic(std::string_view name, std::string_view onnx, std::vector<int> versions, TypeSet in,
               Status (*infer)(InferContext&), Status (*reference)(RefCall&), std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = std::move(versions),
          .inputs = {{"x", in}, {"more", in, true, true, 0}},
          .outputs = {{"y"}},
          .infer = infer,
          .reference = reference,
          .pull = pull_broadcast,
          .elementwise = true,
          .moves = name == "min" || name == "max",
          .samples = std::move(samples)};
}

#define VARIADIC_SAMPLES(op)                                                                           \
  {"graph { input a: f32[2,3]; input b: f32[3]; input c: f32[2,1]; y = " op "(a, b, c); output y }",   \
   "graph { input a: f32[4]; y = " op "(a); output y }",                                               \
   "graph { input a: f16[0,3]; input b: f16[3]; y = " op "(a, b); output y }",                         \
   "graph { input a: f32[]; input b: f32[2,2]; y = " op "(a, b); output y }",                          \
   "graph { const a: f32[4] = [nan, 1.0, inf, -0.0]; const b: f32[4] = [1.0, nan, -inf, 0.0]; y = " op \
   "(a, b); output y }"}
#define EXTREME_SAMPLES(op)                                                    \
  {"graph { input a: i32[2,3]; input b: i32[3]; y = " op "(a, b); output y }", \
   "graph { const a: u64[2] = [18446744073709551615, 5]; const b: u64[2] = [2, 7]; y = " op "(a, b); output y }"}

std::vector<std::string_view> both(std::vector<std::string_view> a, std::vector<std::string_view> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
}  // namespace

extern const Entry min_max_entry;
const Entry min_max_entry{{
    variadic("min", "Min", {6, 8, 12, 13}, kNumbers,
             infer_fold<[](const Dim& a, const Dim& b) { return peri::min(a, b); }>, min_reference,
             both(VARIADIC_SAMPLES("min"), EXTREME_SAMPLES("min"))),
    variadic("max", "Max", {6, 8, 12, 13}, kNumbers,
             infer_fold<[](const Dim& a, const Dim& b) { return peri::max(a, b); }>, max_reference,
             both(VARIADIC_SAMPLES("max"), EXTREME_SAMPLES("max"))),
    variadic("sum", "Sum", {6, 8, 13}, kFloats, infer_broadcast, sum_reference, VARIADIC_SAMPLES("sum")),
    variadic("mean", "Mean", {6, 8, 13}, kFloats, infer_broadcast, mean_reference, VARIADIC_SAMPLES("mean")),
}};
}  // namespace peri::ops
