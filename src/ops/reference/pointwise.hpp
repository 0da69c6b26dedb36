// Element-wise float functions as rows of a table: a function of one double, and the error allowed to an
// implementation.
#pragma once

#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/reference/unary.hpp"

namespace peri::ops {

// Error of one evaluation in units of round-off: `relative` times |y|, plus `absolute` times 1 (for functions that
// implementations build from exp, whose small results lose relative accuracy).
struct PointError {
  double relative = 4;
  double absolute = 0;
  double argument = 0;  // times |x|: x is multiplied by a factor in [0, 1] with an absolute error
};

// y = f(x). radius = max |f(x +- r) - f(x)| + own error. Infinite and NaN results carry no radius.
template <class F>
Status pointwise(RefCall& call, PointError error, F f) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    const size_t at = static_cast<size_t>(p);
    const double v = f(x.f[at]);
    y.f[at] = v;
    if (call.u == 0 || !std::isfinite(v)) continue;
    double spread = 0;
    if (const double r = x.r(p); r > 0) {
      const double above = std::fabs(f(x.f[at] + r) - v), below = std::fabs(f(x.f[at] - r) - v);
      spread = std::max(std::isfinite(above) ? above : std::fabs(v), std::isfinite(below) ? below : std::fabs(v));
    }
    const double scaled = std::isfinite(x.f[at]) ? error.argument * std::fabs(x.f[at]) : 0;
    y.radius[at] = spread + rounding(call, error.relative, v) + call.u * (error.absolute + scaled);
  }
  return Ok{};
}

// The reference of a function without attributes: float_reference<[](double x) { return ...; }, 4>.
template <auto F, int Relative = 4, int Absolute = 0, int Argument = 0>
Status float_reference(RefCall& call) {
  return pointwise(call, {Relative, Absolute, Argument}, F);
}
// The same with one float attribute read from the node: F(x, alpha).
template <auto F, int Relative = 4, int Absolute = 0>
Status float_reference_alpha(RefCall& call, double fallback) {
  const double alpha = call.node.f("alpha", fallback);
  return pointwise(call, {Relative, Absolute}, [alpha](double x) { return F(x, alpha); });
}

// y = f(x) on integers, wrapped to the type.
template <class F>
Status integer_pointwise(RefCall& call, F f) {
  const RefTensor& x = *call.in[0];
  for (int64_t n = 0; n < call.count(); ++n) {
    const size_t at = static_cast<size_t>(call.position(n));
    call.out[0].i[at] = wrap(x.dtype, f(x.i[at]));
  }
  return Ok{};
}

// An element-wise float op x → y of the same type.
inline OpDef float_op(std::string_view name, std::string_view onnx, std::vector<int> versions,
                      Status (*reference)(RefCall&), std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = std::move(versions),
          .inputs = {{"x", kFloats}},
          .outputs = {{"y"}},
          .infer = infer_same,
          .reference = reference,
          .pull = pull_same,
          .elementwise = true,
          .samples = std::move(samples)};
}

// Samples of a float op without attributes: an ordinary tensor, a scalar, an empty one, f16, and limits of the format.
#define PERI_FLOAT_SAMPLES(op)                               \
  {"graph { input x: f32[2,3,5]; y = " op "(x); output y }", \
   "graph { input x: f32[]; y = " op "(x); output y }",      \
   "graph { input x: f32[0,3]; y = " op "(x); output y }",   \
   "graph { input x: f16[7]; y = " op "(x); output y }",     \
   "graph { input x: f64[3]; y = " op "(x); output y }",     \
   "graph { const x: f32[10] = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, inf, -inf, nan]; y = " op "(x); output y }"}

}  // namespace peri::ops
