// relayout (internal): the same values in another physical layout, given by the types of its input and output.
#include "ops/reference/unary.hpp"
#include "ops/shape/any_size.hpp"

namespace peri::ops {
namespace {
Status reference(RefCall& call) {
  call.out[0] = *call.in[0];
  return Ok{};
}
}  // namespace

extern const Entry relayout_entry;
const Entry relayout_entry{{
    {.name = "relayout",
     .onnx = "",
     .domain = "peri",
     .inputs = {{"x"}},
     .outputs = {{"y"}},
     .infer = infer_same,
     .reference = reference,
     .pull = pull_broadcast,
     .changes_layout = true,
     .any_size = any_size_of_one_input,
     .samples = {"graph { input x: f32[2,3,5,7]; y = relayout(x); output y }"}},
}};
}  // namespace peri::ops
