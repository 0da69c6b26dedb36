// Pow: x to the power y, the result in the type of x; the exponent may be of another type. Integer powers of integers
// wrap.
#include "ops/reference/binary.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) { return infer_broadcast(c); }

int64_t int_pow(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  int64_t out = 1;
  for (; y; y >>= 1) {
    if (y & 1) out = wrap_mul(out, x);
    x = wrap_mul(x, x);
  }
  return out;
}

Status integers(RefCall& call) {
  const RefTensor &x = *call.in[0], &y = *call.in[1];
  RefTensor& z = call.out[0];
  const Under under_x(x.dims, z.dims), under_y(y.dims, z.dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), px = under_x(p), py = under_y(p);
    const int64_t base = x.i[static_cast<size_t>(px)];
    z.i[static_cast<size_t>(p)] =
        y.floating() ? int_from(z.dtype, std::pow(int_value(x.dtype, base), y.f[static_cast<size_t>(py)]))
                     : wrap(z.dtype, int_pow(base, y.dtype == DType::kU64 ? y.i[static_cast<size_t>(py)] & INT64_MAX
                                                                          : y.i[static_cast<size_t>(py)]));
  }
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor &x = *call.in[0], &y = *call.in[1];
  RefTensor& z = call.out[0];
  if (!x.floating()) return integers(call);
  const Under under_x(x.dims, z.dims), under_y(y.dims, z.dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), px = under_x(p), py = under_y(p);
    const double base = x.f[static_cast<size_t>(px)], exponent = number_at(y, py), v = std::pow(base, exponent);
    z.f[static_cast<size_t>(p)] = v;
    if (call.u == 0 || !std::isfinite(v)) continue;
    double spread = 0;
    const double rx = x.r(px), ry = y.r(py);
    for (const double b : {base - rx, base + rx})
      for (const double e : {exponent - ry, exponent + ry})
        if (const double d = std::fabs(std::pow(b, e) - v); d > spread) spread = d;
    // exp(y * log x) turns the rounding of its argument into a relative error of |y log x|.
    const double log_result = std::fabs(exponent * std::log(std::fabs(base))),
                 argument = std::isfinite(log_result) ? log_result : 0;
    z.radius[static_cast<size_t>(p)] = spread + rounding(call, 4 + 2 * argument, v);
  }
  return Ok{};
}
}  // namespace

extern const Entry pow_entry;
const Entry pow_entry{{
    {.name = "pow",
     .onnx = "Pow",
     .versions = {7, 12, 13, 15},
     .inputs = {{"x", kFloats | kIndex}, {"y", kNumbers}},
     .outputs = {{"z"}},
     .infer = infer,
     .reference = reference,
     .pull = pull_broadcast,
     .elementwise = true,
     .samples = {"graph { input x: f32[2,3]; const y: f32[] = [2.0]; z = pow(x, y); output z }",
                 "graph { input x: f32[2,3]; input y: f32[3]; z = pow(x, y); output z }",
                 "graph { input x: f32[2,3]; const y: i64[3] = [3, -2, 0]; z = pow(x, y); output z }",
                 "graph { const x: i32[5] = [2, -3, 1, -1, 7]; const y: i32[5] = [31, 3, -5, -5, 0]; z = pow(x, y); "
                 "output z }",
                 "graph { const x: i64[3] = [4, 9, 2]; const y: f32[3] = [0.5, 1.5, -1.0]; z = pow(x, y); output z }",
                 "graph { input x: f16[0]; const y: f16[] = [0.5]; z = pow(x, y); output z }",
                 "graph { const x: f32[6] = [0.0, -0.0, inf, -inf, nan, -8.0]; const y: f32[6] = [0.0, -1.0, 0.5, 3.0, "
                 "0.0, 0.333]; z = pow(x, y); output z }"}},
}};
}  // namespace peri::ops
