// Operators of com.microsoft between quantised tensors, expanded to those of ONNX between a dequantize_linear and a
// quantize_linear: QLinearAdd and similar, QGemm; and those that
// ONNX has by the same name. Passes recognise their byte products and chains again.
#include "ops/reference/quantized.hpp"
#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {

// Inputs port, port + 1, port + 2 are bytes, a scale and a zero point.
ir::Value* number(Composed& c, size_t port) {
  std::vector<ir::Value*> inputs = {c.in(port), c.in(port + 1)};
  if (c.has(port + 2)) inputs.push_back(c.in(port + 2));
  return c.op("dequantize_linear", inputs);
}
// As bytes by the scale `port` and the zero point behind it, of the type of `like` where there is none.
ir::Value* bytes(Composed& c, ir::Value* y, size_t port, const ir::Value* like) {
  std::vector<ir::Value*> inputs = {y, c.in(port)};
  if (c.has(port + 1)) inputs.push_back(c.in(port + 1));
  ir::Attrs attrs;
  if (!c.has(port + 1)) attrs["output_dtype"] = static_cast<int64_t>(like->type.dtype);
  return c.op("quantize_linear", inputs, attrs);
}

// Those of com.microsoft, which took 16 and 4 bits before ONNX did: the same.
Status plain(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const bool quantizes = node.op == "microsoft_quantize_linear";
  c.give(0, c.op(quantizes ? "quantize_linear" : "dequantize_linear", node.inputs, node.attrs));
  return c.done();
}

Status binary(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  ir::Value* const y = c.op(node.op == "qlinear_add" ? "add" : "mul", {number(c, 0), number(c, 3)});
  c.give(0, bytes(c, y, 6, c.in(0)));
  return c.done();
}

// Channels behind the spatial axes instead of before them, or back.
ir::Value* moved_channels(Composed& c, ir::Value* x, int64_t rank, bool behind) {
  std::vector<int64_t> perm = {0};
  if (!behind) perm.push_back(rank - 1);
  for (int64_t d = behind ? 2 : 1; d < (behind ? rank : rank - 1); ++d) perm.push_back(d);
  if (behind) perm.push_back(1);
  return c.op("transpose", {x}, {{"perm", perm}});
}

Status convolution(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const bool last = node.i("channels_last") != 0;
  const int64_t rank = static_cast<int64_t>(c.in(0)->type.rank());
  std::vector<ir::Value*> inputs = node.inputs;
  ir::Attrs attrs = node.attrs;
  attrs.erase("channels_last");
  if (last) inputs[0] = moved_channels(c, inputs[0], rank, false);
  ir::Value* y = c.op("qlinear_conv", std::move(inputs), std::move(attrs));
  if (last) y = moved_channels(c, y, rank, true);
  c.give(0, y);
  return c.done();
}

// A condition, two tensors with their scales and zero points, those of the result.
Status where(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  c.give(0, bytes(c, c.op("where", {c.in(0), number(c, 1), number(c, 4)}), 7, c.in(1)));
  return c.done();
}

// x, its scale and zero point, those of y.
Status unary(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  ir::Value* const x = number(c, 0);
  const int64_t rank = static_cast<int64_t>(x->type.shape ? x->type.rank() : c.in(0)->type.rank());
  const bool last = node.i("channels_last") != 0;
  ir::Value* y = nullptr;
  if (node.op == "qlinear_sigmoid") {
    y = c.op("sigmoid", {x});
  } else if (node.op == "qlinear_leaky_relu") {
    y = c.op("leaky_relu", {x}, {{"alpha", node.f("alpha", 0.01)}});
  } else if (node.op == "qlinear_softmax") {
    // Before opset 13 all axes from the one named are one.
    if (const int64_t axis = node.i("axis", -1); node.i("opset") < 13 && axis != -1 && axis != rank - 1)
      return unsupported("a softmax over several axes is not supported").advise("export from opset 13 on");
    y = c.op("softmax", {x}, {{"axis", node.i("axis", -1)}});
  } else if (node.op == "qlinear_global_average_pool") {
    std::vector<int64_t> axes;
    for (int64_t d = last ? 1 : 2; d < (last ? rank - 1 : rank); ++d) axes.push_back(d);
    y = c.op("reduce_mean", {x, c.ints(axes)}, {{"keepdims", int64_t{1}}});
  } else if (node.op == "qlinear_reduce_mean") {
    y = c.op("reduce_mean", {x, c.ints(node.ints("axes"))}, {{"keepdims", node.i("keepdims", 1)}});
  } else {
    ir::Attrs attrs = node.attrs;
    attrs.erase("channels_last");
    y = c.op("average_pool", {last ? moved_channels(c, x, rank, false) : x}, attrs);
    if (last) y = moved_channels(c, y, rank, true);
  }
  c.give(0, bytes(c, y, 3, c.in(0)));
  return c.done();
}

// y's scale and zero point, then three inputs for each part.
Status concat(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  if (node.inputs.size() < 5 || (node.inputs.size() - 2) % 3 != 0)
    return invalid("QLinearConcat takes a scale and zero point, and three inputs for each part")
        .but_found(std::to_string(node.inputs.size()) + " inputs");
  std::vector<ir::Value*> parts;
  for (size_t port = 2; port < node.inputs.size(); port += 3) parts.push_back(number(c, port));
  c.give(0, bytes(c, c.op("concat", parts, {{"axis", node.i("axis")}}), 0, c.in(2)));
  return c.done();
}

// The scale of sums, known where both are.
ir::Value* unit(Composed& c, ir::Value* a, ir::Value* b) {
  if (!a->constant || !b->constant || a->constant->numel() != 1) return c.op("mul", {a, b});
  auto t = Tensor::zeros(DType::kF32, b->constant->dims());
  PERI_CHECK(t.ok());
  for (int64_t k = 0; k < b->constant->numel(); ++k) t->set_f64(k, a->constant->f64(0) * b->constant->f64(k));
  return c.constant(std::move(t).value());
}

Status gemm(ir::Graph& graph, ir::Node& node, int) {
  enum : size_t { kA, kAScale, kAZero, kB, kBScale, kBZero, kC, kYScale, kYZero };
  Composed c(graph, node);
  const bool transposed = node.i("transB") != 0;
  std::vector<ir::Value*> right = {c.in(kB), c.in(kBScale)};
  if (c.has(kBZero)) right.push_back(c.in(kBZero));
  std::vector<ir::Value*> inputs = {number(c, kA),
                                    c.op("dequantize_linear", right, {{"axis", int64_t{transposed ? 0 : 1}}})};
  if (c.has(kC))
    inputs.push_back(
        c.op("dequantize_linear", {c.in(kC), unit(c, c.in(kAScale), c.in(kBScale))}, {{"axis", int64_t{0}}}));
  ir::Attrs attrs = {{"transA", node.i("transA")}, {"transB", int64_t{transposed ? 1 : 0}}};
  if (const double alpha = node.f("alpha", 1); alpha != 1) attrs["alpha"] = attrs["beta"] = alpha;  // of C's scale too
  ir::Value* const y = c.op("gemm", inputs, attrs);
  c.give(0, c.has(kYScale) ? bytes(c, y, kYScale, c.in(kA)) : y);
  return c.done();
}

std::vector<OpDef> definitions() {
  const auto tensor = [](std::string_view x, std::string_view scale, std::string_view zero) {
    return std::vector<Port>{{x, kBytes}, {scale, kFloats}, {zero, kBytes, true}};
  };
  const auto both = [](std::vector<Port> a, const std::vector<Port>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const std::vector<Port> y = {{"y_scale", kFloats}, {"y_zero_point", kBytes, true}},
                          a = tensor("a", "a_scale", "a_zero_point"), b = tensor("b", "b_scale", "b_zero_point"),
                          one = both(tensor("x", "x_scale", "x_zero_point"), y), two = both(both(a, b), y);
  const AttrSpec last{"channels_last", AttrKind::kInt, false, "0"};
  std::vector<Port> image = both(both(tensor("x", "x_scale", "x_zero_point"),
                                      tensor("filters", "filters_scale", "filters_zero_point")),
                                 y),
                    chosen = both(both(both({{"condition", kBools}}, tensor("x", "x_scale", "x_zero_point")),
                                       tensor("y", "y_scale", "y_zero_point")),
                                  {{"z_scale", kFloats}, {"z_zero_point", kBytes, true}});
  image.push_back({"offsets", types({DType::kI32}), true});
  std::vector<Port> product = both(both(a, b), {{"c", types({DType::kI32}), true}});
  product = both(std::move(product), {{"y_scale", kFloats, true}, {"y_zero_point", kBytes, true}});
  const AttrSpec axis{"axis", AttrKind::kInt, false, "1"};
  return {composed("microsoft_quantize_linear", "QuantizeLinear",
                   {{"x", kFloats}, {"y_scale", kFloats}, {"y_zero_point", kQuantized, true}}, {axis}, plain),
          composed("microsoft_dequantize_linear", "DequantizeLinear",
                   {{"x", kQuantized | types({DType::kI32})},
                    {"x_scale", kFloats},
                    {"x_zero_point", kQuantized | types({DType::kI32}), true}},
                   {axis}, plain),
          composed("qlinear_add", "QLinearAdd", two, {}, binary),
          composed("qlinear_mul", "QLinearMul", two, {}, binary),
          composed("qlinear_sigmoid", "QLinearSigmoid", one, {}, unary),
          composed("qlinear_leaky_relu", "QLinearLeakyRelu", one, {{"alpha", AttrKind::kFloat, false, "0.01"}}, unary),
          composed("qlinear_softmax", "QLinearSoftmax", one,
                   {{"axis", AttrKind::kInt, false, "-1"}, {"opset", AttrKind::kInt, true}}, unary),
          composed("qlinear_global_average_pool", "QLinearGlobalAveragePool", one, {last}, unary),
          composed("qlinear_average_pool", "QLinearAveragePool", one,
                   {{"auto_pad", AttrKind::kString, false, "NOTSET"},
                    {"ceil_mode", AttrKind::kInt, false, "0"},
                    last,
                    {"count_include_pad", AttrKind::kInt, false, "0"},
                    {"kernel_shape", AttrKind::kInts, true},
                    {"pads", AttrKind::kInts, false, "0 each"},
                    {"strides", AttrKind::kInts, false, "1 each"}},
                   unary),
          composed("microsoft_qlinear_conv", "QLinearConv", image,
                   {{"auto_pad", AttrKind::kString, false, "NOTSET"},
                    last,
                    {"dilations", AttrKind::kInts, false, "1 each"},
                    {"group", AttrKind::kInt, false, "1"},
                    {"kernel_shape", AttrKind::kInts, false, "that of w"},
                    {"pads", AttrKind::kInts, false, "0 each"},
                    {"strides", AttrKind::kInts, false, "1 each"}},
                   convolution),
          composed("qlinear_where", "QLinearWhere", chosen, {}, where),
          composed("qlinear_reduce_mean", "QLinearReduceMean", one,
                   {{"axes", AttrKind::kInts, true}, {"keepdims", AttrKind::kInt, false, "1"}}, unary),
          composed("qlinear_concat", "QLinearConcat",
                   {{"y_scale", kFloats}, {"y_zero_point", kBytes}, {"parts", kAnyType, false, true}},
                   {{"axis", AttrKind::kInt, true}}, concat),
          composed("qgemm", "QGemm", product,
                   {{"alpha", AttrKind::kFloat, false, "1"},
                    {"transA", AttrKind::kInt, false, "0"},
                    {"transB", AttrKind::kInt, false, "0"}},
                   gemm)};
}
}  // namespace

extern const Entry microsoft_bytes_entry;
const Entry microsoft_bytes_entry{definitions()};

}  // namespace peri::ops
