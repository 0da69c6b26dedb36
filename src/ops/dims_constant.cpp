// dims_constant (ours): an int64 tensor whose elements are dimension expressions; passes put it where a model computed
// shapes.
#include "ops/core/content.hpp"
#include "ops/core/elements.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) {
  const std::vector<Dim>& value = *c.node.dims("value");
  const bool scalar = c.node.i("scalar", 0) != 0;
  if (scalar && value.size() != 1)
    return invalid("a scalar dims_constant must have one element").but_found(std::to_string(value.size()));
  c.set(0, DType::kI64, scalar ? Shape{} : Shape{Dim(static_cast<int64_t>(value.size()))});
  c.set_content(0, value);
  return Ok{};
}
Status reference(RefCall& call) {
  const std::vector<Dim>& value = *call.node.dims("value");
  for (size_t k = 0; k < value.size(); ++k) {
    PERI_ASSIGN(call.out[0].i[k], value[k].eval({}));
  }
  return Ok{};
}
}  // namespace

extern const Entry dims_constant_entry;
const Entry dims_constant_entry{{
    {.name = "dims_constant",
     .onnx = "",
     .domain = "peri",
     .outputs = {{"y"}},
     .attrs = {{"value", AttrKind::kDims, true}, {"scalar", AttrKind::kInt, false, "0"}},
     .infer = infer,
     .reference = reference,
     .cost = cost_view,
     .samples = {"graph { y = dims_constant() {value=dims[3,4]}; output y }",
                 "graph { y = dims_constant() {value=dims[7], scalar=1}; output y }"}},
}};
}  // namespace peri::ops
