// Circular and hyperbolic functions and their inverses. Small results are allowed an absolute error: range reduction
// and differences of exponentials lose relative accuracy near zeros.
#include <algorithm>
#include <numbers>

#include "ops/reference/pointwise.hpp"

namespace peri::ops {
namespace {
// Of a function that is periodic, whose largest change is not at the ends of an interval: sine and cosine change by no
// more than their argument, nor by more than to the other end of their range; a tangent by any amount across a pole.
template <auto F, bool kTangent>
Status circular_reference(RefCall& call) {
  constexpr double kAnything = 1e100;
  PERI_TRY((float_reference<F, 4, 1>(call)));
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    const size_t at = static_cast<size_t>(p);
    const double r = x.r(p), v = y.f[at];
    if (call.u == 0 || !(r > 0) || !std::isfinite(v)) continue;
    const double own = rounding(call, 4, v) + call.u;
    const auto between_poles = [](double argument) { return std::floor(argument / std::numbers::pi + 0.5); };
    if (!kTangent)
      y.radius[at] = std::min(r, 1 + std::fabs(v)) + own;
    else if (between_poles(x.f[at] - r) != between_poles(x.f[at] + r))
      y.radius[at] = kAnything;
  }
  return Ok{};
}
}  // namespace

extern const Entry trigonometry_entry;
const Entry trigonometry_entry{{
    float_op("sin", "Sin", {7, 22}, circular_reference<[](double x) { return std::sin(x); }, false>,
             PERI_FLOAT_SAMPLES("sin")),
    float_op("cos", "Cos", {7, 22}, circular_reference<[](double x) { return std::cos(x); }, false>,
             PERI_FLOAT_SAMPLES("cos")),
    float_op("tan", "Tan", {7, 22}, circular_reference<[](double x) { return std::tan(x); }, true>,
             PERI_FLOAT_SAMPLES("tan")),
    float_op("asin", "Asin", {7, 22}, float_reference<[](double x) { return std::asin(x); }>,
             PERI_FLOAT_SAMPLES("asin")),
    float_op("acos", "Acos", {7, 22}, float_reference<[](double x) { return std::acos(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("acos")),
    float_op("atan", "Atan", {7, 22}, float_reference<[](double x) { return std::atan(x); }>,
             PERI_FLOAT_SAMPLES("atan")),
    float_op("sinh", "Sinh", {9, 22}, float_reference<[](double x) { return std::sinh(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("sinh")),
    float_op("cosh", "Cosh", {9, 22}, float_reference<[](double x) { return std::cosh(x); }>,
             PERI_FLOAT_SAMPLES("cosh")),
    float_op("tanh", "Tanh", {6, 13}, float_reference<[](double x) { return std::tanh(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("tanh")),
    float_op("asinh", "Asinh", {9, 22}, float_reference<[](double x) { return std::asinh(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("asinh")),
    float_op("acosh", "Acosh", {9, 22}, float_reference<[](double x) { return std::acosh(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("acosh")),
    float_op("atanh", "Atanh", {9, 22}, float_reference<[](double x) { return std::atanh(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("atanh")),
}};
}  // namespace peri::ops
