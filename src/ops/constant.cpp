// Constant (with any of the attributes that hold its value) and constant_of_shape.
#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
// The tensor a constant node stands for.
Result<Tensor> value_of(const ir::Node& node) {
  if (const Tensor* t = node.tensor("value")) return *t;
  if (node.has("value_int")) return Tensor::of_i64({}, std::vector<int64_t>{node.i("value_int")});
  if (node.has("value_float")) return Tensor::of_f32({}, std::vector<float>{static_cast<float>(node.f("value_float"))});
  if (node.has("value_string")) return Tensor::strings({}, {node.s("value_string")});
  if (node.has("value_ints")) {
    const std::vector<int64_t> v = node.ints("value_ints");
    return Tensor::of_i64({static_cast<int64_t>(v.size())}, v);
  }
  if (node.has("value_floats")) {
    const std::vector<double> v = node.floats("value_floats");
    const std::vector<float> f(v.begin(), v.end());
    return Tensor::of_f32({static_cast<int64_t>(f.size())}, f);
  }
  if (auto it = node.attrs.find("value_strings"); it != node.attrs.end()) {
    const auto& v = std::get<std::vector<std::string>>(it->second);
    return Tensor::strings({static_cast<int64_t>(v.size())}, v);
  }
  return unsupported("a constant without a dense value").advise("store the value as a dense tensor");
}

Status infer_constant(InferContext& c) {
  PERI_ASSIGN(const Tensor t, value_of(c.node));
  if (!contains(kMovable, t.dtype())) return unsupported("a constant of type %s", dtype_name(t.dtype()).data());
  c.set(0, t.dtype(), Shape(t.dims().begin(), t.dims().end()));
  if (is_integer(t.dtype()) && t.numel() <= kMaxContent) {
    std::vector<Dim> elements;
    for (int64_t k = 0; k < t.numel(); ++k) elements.emplace_back(t.i64(k));
    c.set_content(0, std::move(elements));
  }
  return Ok{};
}
Status constant(RefCall& call) {
  PERI_ASSIGN(const Tensor t, value_of(call.node));
  const RefTensor v = to_ref(t);
  return move_elements(call, v, [](int64_t p) { return p; });
}

Result<Tensor> fill_of(const ir::Node& node) {
  if (const Tensor* t = node.tensor("value")) {
    if (t->numel() != 1)
      return invalid("the value of constant_of_shape must have one element").but_found(std::to_string(t->numel()));
    return *t;
  }
  return Tensor::zeros(DType::kF32, {1});
}
Status infer_fill(InferContext& c) {
  PERI_ASSIGN(const Tensor fill, fill_of(c.node));
  PERI_ASSIGN(Shape s, shape_from(c, 0, "filled"));
  c.set(0, fill.dtype(), std::move(s));
  if (const auto dims = countable(c.out[0]); dims && contains(kContentTypes, fill.dtype()))
    c.set_content(0, std::vector<Dim>(static_cast<size_t>(numel_of(*dims)), Dim(fill.i64(0))));
  return Ok{};
}
Status fill(RefCall& call) {
  PERI_ASSIGN(const Tensor value, fill_of(call.node));
  const RefTensor v = to_ref(value);
  return move_elements(call, v, [](int64_t) { return 0; });
}
}  // namespace

extern const Entry constant_entry;
const Entry constant_entry{{
    {.name = "constant",
     .onnx = "Constant",
     .versions = {1, 9, 11, 12, 13, 19, 21, 23, 24, 25},
     .outputs = {{"y"}},
     .attrs = {{"value", AttrKind::kTensor},
               {"value_float", AttrKind::kFloat},
               {"value_floats", AttrKind::kFloats},
               {"value_int", AttrKind::kInt},
               {"value_ints", AttrKind::kInts},
               {"value_string", AttrKind::kString},
               {"value_strings", AttrKind::kStrings}},
     .infer = infer_constant,
     .reference = constant,
     .cost = cost_view,
     .samples = {"graph { y = constant() {value=tensor f32[2,2] [1.5, -2.0, 0.0, 3.0]}; output y }",
                 "graph { y = constant() {value_int=7}; output y }",
                 "graph { y = constant() {value_ints=[1, 2, 3]}; output y }",
                 "graph { y = constant() {value_float=0.5}; output y }",
                 "graph { y = constant() {value_floats=[0.5, 1.5]}; output y }",
                 "graph { y = constant() {value_string=\"a\"}; output y }",
                 "graph { y = constant() {value_strings=[\"a\", \"b\"]}; output y }"}},
    {.name = "constant_of_shape",
     .onnx = "ConstantOfShape",
     .versions = {9, 20, 21, 23, 24, 25},
     .inputs = {{"shape", types({DType::kI64})}},
     .outputs = {{"y"}},
     .attrs = {{"value", AttrKind::kTensor, false, "0.0"}},
     .infer = infer_fill,
     .reference = fill,
     .samples = {"graph { const s: i64[2] = [3, 4]; y = constant_of_shape(s); output y }",
                 "graph { const s: i64[1] = [3]; y = constant_of_shape(s) {value=tensor i64[1] [-7]}; output y }",
                 "graph { const s: i64[0] = []; y = constant_of_shape(s) {value=tensor bool[1] [1]}; output y }",
                 "graph { const s: i64[2] = [0, 4]; y = constant_of_shape(s); output y }"}},
}};
}  // namespace peri::ops
