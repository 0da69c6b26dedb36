// SwiGLU: a * sigmoid(alpha a) * b of two inputs of one shape, without broadcasting. Infinity times zero is NaN.
#include <algorithm>

#include "ops/reference/binary.hpp"
#include "ops/shape/any_size.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape &a = c.shape(0), &b = c.shape(1);
  bool same = a.size() == b.size();
  for (size_t d = 0; same && d < a.size(); ++d) same = !a[d].is_const() || !b[d].is_const() || a[d] == b[d];
  if (!same) return invalid("a and b have different shapes").expecting(shape_text(a)).but_found(shape_text(b));
  return infer_same(c);
}

Status reference(RefCall& call) {
  const double alpha = call.node.f("alpha", 1), u = call.u;
  return float_binary(call, 2, [=](Term a, Term b) {
    const double gate = 1 / (1 + std::exp(-alpha * a.value)), s = a.value * gate;
    // The slope of x * sigmoid(alpha x) is at most 1.1; the gate errs absolutely, as exp is one of its terms.
    const double r = 1.1 * a.radius + u * (6 * std::fabs(s) + 2 * std::fabs(a.value));
    return Term{s * b.value, std::fabs(s) * b.radius + r * (std::fabs(b.value) + b.radius)};
  });
}

// Nothing is broadcast.
bool any_size(const ir::Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](const ir::Value* v) { return v && shape_of(v) == shape_of(node.out()); });
}

}  // namespace

extern const Entry swiglu_entry;
const Entry swiglu_entry{{
    {.name = "swiglu",
     .onnx = "SwiGLU",
     .versions = {28},
     .inputs = {{"a", kFloats}, {"b", kFloats, false, false, 0}},
     .outputs = {{"y"}},
     .attrs = {{"alpha", AttrKind::kFloat, false, "1"}},
     .infer = infer,
     .reference = reference,
     .pull = pull_broadcast,
     .elementwise = true,
     .any_size = any_size,
     .samples = {"graph { input a: f32[2,3,5]; input b: f32[2,3,5]; y = swiglu(a, b); output y }",
                 "graph { input a: f32[7]; input b: f32[7]; y = swiglu(a, b) {alpha=1.702}; output y }",
                 "graph { input a: f16[3]; input b: f16[3]; y = swiglu(a, b); output y }",
                 "graph { input a: f64[]; input b: f64[]; y = swiglu(a, b); output y }",
                 "graph { input a: f32[0,3]; input b: f32[0,3]; y = swiglu(a, b); output y }"}},
}};
}  // namespace peri::ops
