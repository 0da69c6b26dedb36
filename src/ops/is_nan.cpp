// is_nan and is_inf (which can ignore either sign).
#include "ops/reference/elements.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) {
  c.set(0, DType::kBool, c.shape(0));
  return Ok{};
}
Status is_nan(RefCall& call) {
  for (int64_t n = 0; n < call.count(); ++n) {
    const size_t at = static_cast<size_t>(call.position(n));
    call.out[0].i[at] = std::isnan(call.in[0]->f[at]);
  }
  return Ok{};
}
Status is_inf(RefCall& call) {
  const bool positive = call.node.i("detect_positive", 1) != 0, negative = call.node.i("detect_negative", 1) != 0;
  for (int64_t n = 0; n < call.count(); ++n) {
    const size_t at = static_cast<size_t>(call.position(n));
    const double v = call.in[0]->f[at];
    call.out[0].i[at] = std::isinf(v) && (v > 0 ? positive : negative);
  }
  return Ok{};
}
OpDef test_op(std::string_view name, std::string_view onnx, std::vector<int> versions, Status (*reference)(RefCall&),
              std::vector<AttrSpec> attrs, std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = std::move(versions),
          .inputs = {{"x", kFloats | kFloat8}},
          .outputs = {{"y"}},
          .attrs = std::move(attrs),
          .infer = infer,
          .reference = reference,
          .pull = pull_same,
          .jumps = true,
          .elementwise = true,
          .samples = std::move(samples)};
}
}  // namespace

extern const Entry is_nan_entry;
const Entry is_nan_entry{{
    test_op(
        "is_nan", "IsNaN", {9, 13, 20}, is_nan, {},
        {"graph { const x: f32[2,3] = [nan, 1.0, inf, -inf, 0.0, nan]; y = is_nan(x); output y }",
         "graph { input x: f16[]; y = is_nan(x); output y }", "graph { input x: f64[0]; y = is_nan(x); output y }"}),
    test_op("is_inf", "IsInf", {10, 20}, is_inf,
            {{"detect_negative", AttrKind::kInt, false, "1"}, {"detect_positive", AttrKind::kInt, false, "1"}},
            {"graph { const x: f32[2,3] = [nan, 1.0, inf, -inf, 0.0, nan]; y = is_inf(x); output y }",
             "graph { const x: f32[3] = [nan, inf, -inf]; y = is_inf(x) {detect_negative=0}; output y }",
             "graph { const x: f32[3] = [nan, inf, -inf]; y = is_inf(x) {detect_positive=0}; output y }",
             "graph { input x: f16[0]; y = is_inf(x); output y }"}),
}};
}  // namespace peri::ops
