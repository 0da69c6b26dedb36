// Gelu: x * Phi(x) by erf (approximate = "none"), or its tanh form (approximate = "tanh"). -inf gives NaN, as the
// formulas do.
#include "ops/reference/pointwise.hpp"

namespace peri::ops {
namespace {
double by_erf(double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); }
double by_tanh(double x) {
  const double t = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * t));  // (1 + tanh t) / 2
}

Status reference(RefCall& call) {
  // 1 + erf(x) cancels for negative x: the factor of x has an absolute error, that of an erf accurate to 4 ulp.
  return pointwise(call, {6, 0, 4}, call.node.s("approximate", "none") == "tanh" ? by_tanh : by_erf);
}

Status infer(InferContext& c) {
  const std::string form = c.node.s("approximate", "none");
  if (form != "none" && form != "tanh")
    return invalid("gelu has an unknown 'approximate'").expecting("none or tanh").but_found(form);
  return infer_same(c);
}
}  // namespace

extern const Entry gelu_entry;
const Entry gelu_entry{{
    {.name = "gelu",
     .onnx = "Gelu",
     .versions = {20},
     .inputs = {{"x", kFloats}},
     .outputs = {{"y"}},
     .attrs = {{"approximate", AttrKind::kString, false, "none"}},
     .infer = infer,
     .reference = reference,
     .pull = pull_same,
     .elementwise = true,
     .samples = {"graph { input x: f32[2,3,5]; y = gelu(x); output y }",
                 "graph { input x: f32[2,3,5]; y = gelu(x) {approximate=\"tanh\"}; output y }",
                 "graph { input x: f16[9]; y = gelu(x); output y }", "graph { input x: f32[0]; y = gelu(x); output y }",
                 "graph { const x: f32[6] = [0.0, -0.0, -10.0, inf, -inf, nan]; y = gelu(x); output y }",
                 "graph { const x: f32[6] = [0.0, -0.0, -10.0, inf, -inf, nan]; y = gelu(x) {approximate=\"tanh\"}; "
                 "output y }"}},
}};
}  // namespace peri::ops
