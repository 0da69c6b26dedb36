// Relu: max(x, 0). NaN stays NaN; -0 may give +0 or -0.
#include <algorithm>

#include "ops/reference/unary.hpp"

namespace peri::ops {
namespace {
Status reference(RefCall& call) {
  if (!call.in[0]->floating()) {
    for (int64_t n = 0; n < call.count(); ++n) {
      const size_t at = static_cast<size_t>(call.position(n));
      call.out[0].i[at] = std::max<int64_t>(call.in[0]->i[at], 0);
    }
    return Ok{};
  }
  return unary_reference(call, 0, [](double x) { return x < 0 ? 0.0 : x; });
}
}  // namespace

extern const Entry relu_entry;
const Entry relu_entry{{
    {.name = "relu",
     .onnx = "Relu",
     .versions = {6, 13, 14},
     .inputs = {{"x", kFloats | kSignedInts}},
     .outputs = {{"y"}},
     .infer = infer_same,
     .reference = reference,
     .pull = pull_broadcast,
     .elementwise = true,
     .samples = {"graph { input x: f32[2,3,5]; y = relu(x); output y }",
                 "graph { input x: f16[7]; y = relu(x); output y }",
                 "graph { input x: f32[0,3]; y = relu(x); output y }",
                 "graph { input x: f32[]; y = relu(x); output y }"}},
}};
}  // namespace peri::ops
