// dims_constant (internal): a tensor of integers or booleans whose elements are dimension expressions; passes replace a
// model's shape computations by it.
#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) {
  const std::vector<Dim>& value = *c.node.dims("value");
  const bool scalar = c.node.i("scalar", 0) != 0;
  if (scalar && value.size() != 1)
    return invalid("a scalar dims_constant must have one element").but_found(std::to_string(value.size()));
  const int64_t type = c.node.i("type", static_cast<int64_t>(DType::kI64));
  if (type <= 0 || type >= kDTypeCount || !contains(kContentTypes, static_cast<DType>(type)))
    return invalid("a dims_constant has a wrong type")
        .expecting("int64, int32 or bool")
        .but_found(std::to_string(type));
  c.set(0, static_cast<DType>(type), scalar ? Shape{} : Shape{Dim(static_cast<int64_t>(value.size()))});
  c.set_content(0, value);
  return Ok{};
}
Status reference(RefCall& call) {
  const std::vector<Dim>& value = *call.node.dims("value");
  for (size_t k = 0; k < value.size(); ++k) {
    PERI_ASSIGN(const int64_t v, value[k].eval({}));
    if (wrap(call.out[0].dtype, v) != v)
      return invalid("a size does not fit its type")
          .expecting(std::string(dtype_name(call.out[0].dtype)))
          .but_found(std::to_string(v));
    call.out[0].i[k] = v;
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
     .attrs = {{"value", AttrKind::kDims, true},
               {"scalar", AttrKind::kInt, false, "0"},
               {"type", AttrKind::kType, false, "i64"}},
     .infer = infer,
     .reference = reference,
     .cost = cost_view,
     .states_sizes = true,
     .samples = {"graph { y = dims_constant() {value=dims[3,4]}; output y }",
                 "graph { y = dims_constant() {value=dims[7], scalar=1}; output y }",
                 "graph { y = dims_constant() {value=dims[7,-1], type=13}; output y }",
                 "graph { y = dims_constant() {value=dims[0,1], type=23}; output y }"}},
}};
}  // namespace peri::ops
