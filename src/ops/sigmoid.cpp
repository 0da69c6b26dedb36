// Sigmoid and functions of it: hard_sigmoid, swish (x * sigmoid(alpha x)), hard_swish, softplus, softsign, mish.
// Infinity times zero in the formula is NaN.
#include "ops/reference/pointwise.hpp"

namespace peri::ops {
namespace {
double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
// min and max that keep NaN.
double clamp01(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

Status hard_sigmoid(RefCall& call) {
  const double alpha = call.node.f("alpha", 0.2f), beta = call.node.f("beta", 0.5);
  return pointwise(call, {2, 1}, [=](double x) { return clamp01(alpha * x + beta); });
}
Status swish(RefCall& call) {
  const double alpha = call.node.f("alpha", 1);
  return pointwise(call, {6, 1, 2}, [=](double x) { return x * sigmoid(alpha * x); });
}

OpDef hard_sigmoid_op() {
  OpDef op = float_op("hard_sigmoid", "HardSigmoid", {6, 22}, hard_sigmoid, PERI_FLOAT_SAMPLES("hard_sigmoid"));
  op.attrs = {{"alpha", AttrKind::kFloat, false, "0.2"}, {"beta", AttrKind::kFloat, false, "0.5"}};
  op.samples.push_back("graph { input x: f32[4,5]; y = hard_sigmoid(x) {alpha=0.7, beta=0.1}; output y }");
  return op;
}
OpDef swish_op() {
  OpDef op = float_op("swish", "Swish", {24}, swish, PERI_FLOAT_SAMPLES("swish"));
  op.attrs = {{"alpha", AttrKind::kFloat, false, "1"}};
  op.samples.push_back("graph { input x: f32[4,5]; y = swish(x) {alpha=1.7}; output y }");
  return op;
}
}  // namespace

extern const Entry sigmoid_entry;
const Entry sigmoid_entry{{
    float_op("sigmoid", "Sigmoid", {6, 13}, float_reference<sigmoid, 4, 1>, PERI_FLOAT_SAMPLES("sigmoid")),
    hard_sigmoid_op(),
    swish_op(),
    float_op("hard_swish", "HardSwish", {14, 22},
             float_reference<[](double x) { return x * clamp01(x / 6 + 0.5); }, 4, 1, 2>,
             PERI_FLOAT_SAMPLES("hard_swish")),
    float_op("softplus", "Softplus", {1, 22}, float_reference<softplus, 4, 1>, PERI_FLOAT_SAMPLES("softplus")),
    float_op("softsign", "Softsign", {1, 22}, float_reference<[](double x) { return x / (1 + std::fabs(x)); }>,
             PERI_FLOAT_SAMPLES("softsign")),
    float_op("mish", "Mish", {18, 22}, float_reference<[](double x) { return x * std::tanh(softplus(x)); }, 6, 1, 2>,
             PERI_FLOAT_SAMPLES("mish")),
}};
}  // namespace peri::ops
