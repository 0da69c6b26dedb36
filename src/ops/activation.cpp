// Activations with attributes: leaky_relu, elu, selu, celu, thresholded_relu, shrink, prelu. NaN stays NaN, except in
// thresholded_relu and shrink, where it takes the last case: 0.
#include <algorithm>

#include "ops/reference/binary.hpp"
#include "ops/reference/pointwise.hpp"

namespace peri::ops {
namespace {
Status leaky_relu(RefCall& call) {
  return float_reference_alpha<[](double x, double alpha) { return x < 0 ? alpha * x : x; }, 1>(call, 0.01f);
}
Status elu(RefCall& call) {
  return float_reference_alpha<[](double x, double alpha) { return x < 0 ? alpha * std::expm1(x) : x; }, 4, 2>(call, 1);
}
Status celu(RefCall& call) {
  return float_reference_alpha<[](double x, double alpha) { return x < 0 ? alpha * std::expm1(x / alpha) : x; }, 4, 2>(
      call, 1);
}
Status thresholded_relu(RefCall& call) {
  return float_reference_alpha<[](double x, double alpha) { return (x > alpha) ? x : 0.0; }, 0>(call, 1);
}
Status selu(RefCall& call) {
  const double alpha = call.node.f("alpha", 1.67326319217681884765625f),
               gamma = call.node.f("gamma", 1.05070102214813232421875f);
  return pointwise(call, {4, 2}, [=](double x) { return gamma * (x < 0 ? alpha * std::expm1(x) : x); });
}

Status shrink(RefCall& call) {
  const double bias = call.node.f("bias", 0), lambd = call.node.f("lambd", 0.5);
  const auto f = [=](double x) { return x < -lambd ? x + bias : x > lambd ? x - bias : 0.0; };
  if (call.in[0]->floating()) return pointwise(call, {1, 0}, f);
  const DType t = call.in[0]->dtype;
  return integer_pointwise(call, [=](int64_t x) { return int_from(t, f(int_value(t, x))); });
}

// ONNX lets only the slope be broadcast; runtimes broadcast the input too, and so does this.
Status infer_prelu(InferContext& c) {
  PERI_ASSIGN(Shape s, broadcast(c.shape(0), c.shape(1)));
  c.set(0, c.dtype(0), std::move(s));
  return Ok{};
}
Status prelu(RefCall& call) {
  if (!call.in[0]->floating()) {
    const DType t = call.in[0]->dtype;
    return int_binary(call, [t](int64_t x, int64_t slope) { return int_less(t, x, 0) ? wrap_mul(x, slope) : x; });
  }
  return float_binary(call, 1, [](Term x, Term slope) {
    const double factor = std::max(1.0, std::fabs(slope.value) + slope.radius);
    if (!(x.value < 0)) return Term{x.value, x.radius * (x.value > x.radius ? 1 : factor)};
    return Term{x.value * slope.value,
                std::fabs(x.value) * slope.radius +
                    x.radius * (x.value < -x.radius ? std::fabs(slope.value) + slope.radius : factor)};
  });
}

OpDef alpha_op(std::string_view name, std::string_view onnx, std::vector<int> versions, Status (*reference)(RefCall&),
               std::string_view fallback, std::vector<std::string_view> samples) {
  OpDef op = float_op(name, onnx, std::move(versions), reference, std::move(samples));
  op.attrs = {{"alpha", AttrKind::kFloat, false, fallback}};
  return op;
}
OpDef selu_op() {
  OpDef op = alpha_op("selu", "Selu", {6, 22}, selu, "1.67326319217681884765625", PERI_FLOAT_SAMPLES("selu"));
  op.attrs.push_back({"gamma", AttrKind::kFloat, false, "1.05070102214813232421875"});
  op.samples.push_back("graph { input x: f32[9]; y = selu(x) {alpha=2.0, gamma=3.0}; output y }");
  return op;
}
OpDef shrink_op() {
  OpDef op = float_op("shrink", "Shrink", {9}, shrink, PERI_FLOAT_SAMPLES("shrink"));
  op.inputs = {{"x", kNumbers}};
  op.attrs = {{"bias", AttrKind::kFloat, false, "0"}, {"lambd", AttrKind::kFloat, false, "0.5"}};
  op.jumps = true;
  op.samples.push_back("graph { input x: f32[9]; y = shrink(x) {bias=0.25, lambd=0.75}; output y }");
  op.samples.push_back("graph { input x: i32[9]; y = shrink(x) {bias=1.5, lambd=1.5}; output y }");
  return op;
}
OpDef thresholded_relu_op() {
  OpDef op = alpha_op("thresholded_relu", "ThresholdedRelu", {1, 10, 22}, thresholded_relu, "1",
                      PERI_FLOAT_SAMPLES("thresholded_relu"));
  op.jumps = true;
  return op;
}
}  // namespace

extern const Entry activation_entry;
const Entry activation_entry{{
    alpha_op("leaky_relu", "LeakyRelu", {6, 16}, leaky_relu, "0.01", PERI_FLOAT_SAMPLES("leaky_relu")),
    alpha_op("elu", "Elu", {6, 22}, elu, "1", PERI_FLOAT_SAMPLES("elu")),
    alpha_op("celu", "Celu", {12, 28}, celu, "1", PERI_FLOAT_SAMPLES("celu")),
    selu_op(),
    thresholded_relu_op(),
    shrink_op(),
    {.name = "prelu",
     .onnx = "PRelu",
     .versions = {7, 9, 16},
     .inputs = {{"x", kNumbers}, {"slope", kNumbers, false, false, 0}},
     .outputs = {{"y"}},
     .infer = infer_prelu,
     .reference = prelu,
     .pull = pull_broadcast,
     .elementwise = true,
     .samples = {"graph { input x: f32[2,3,5]; input s: f32[3,1]; y = prelu(x, s); output y }",
                 "graph { input x: f32[2,3]; const s: f32[] = [0.25]; y = prelu(x, s); output y }",
                 "graph { input x: i32[2,3]; const s: i32[1] = [2]; y = prelu(x, s); output y }",
                 "graph { input x: f16[0,3]; input s: f16[3]; y = prelu(x, s); output y }",
                 "graph { input x: f32[2,1,3]; input s: f32[4,1,5,1]; y = prelu(x, s); output y }",
                 "graph { input x: f32[1,3]; const s: f32[2,1] = [0.25, 3]; y = prelu(x, s); output y }"}},
}};
}  // namespace peri::ops
