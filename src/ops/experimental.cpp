// Operators that ONNX had as experimental ones before opset 10 and ONNX Runtime still runs: Affine, Crop, DynamicSlice,
// ImageScaler, ParametricSoftplus, Scale and ScaledTanh, as others of ONNX.
#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {
using Attr = std::pair<std::string_view, double>;

ir::Value* scaled(Composed& c, ir::Value* x, const ir::Node& node, Attr factor) {
  return c.op("mul", {x, c.scalar(c.in(0)->type.dtype, node.f(factor.first, factor.second))});
}

Status scale(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  c.give(0, scaled(c, c.in(0), node, {"scale", 1}));
  return c.done();
}

// alpha x + beta
Status affine(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  ir::Value* const beta = c.scalar(c.in(0)->type.dtype, node.f("beta", 0));
  c.give(0, c.op("add", {scaled(c, c.in(0), node, {"alpha", 1}), beta}));
  return c.done();
}

// alpha f(beta x)
template <const std::string_view& kFunction>
Status around(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  ir::Value* const y = c.op(kFunction, {scaled(c, c.in(0), node, {"beta", 1})});
  c.give(0, scaled(c, y, node, {"alpha", 1}));
  return c.done();
}
constexpr std::string_view kTanh = "tanh", kSoftplus = "softplus";

// An image scaled, with a bias for each channel.
Status image_scaler(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const Shape& x = *c.in(0)->type.shape;
  const auto it = node.attrs.find("bias");
  const std::vector<double> bias =
      it == node.attrs.end() ? std::vector<double>() : std::get<std::vector<double>>(it->second);
  if (x.size() != 4)
    return invalid("an image has a wrong shape").expecting("[batch, channels, height, width]").but_found(shape_text(x));
  ir::Value* y = scaled(c, c.in(0), node, {"scale", 1});
  if (!bias.empty()) {
    PERI_ASSIGN(Tensor t, Tensor::zeros(c.in(0)->type.dtype, {static_cast<int64_t>(bias.size()), 1, 1}));
    for (size_t k = 0; k < bias.size(); ++k) t.set_f64(static_cast<int64_t>(k), bias[k]);
    y = c.op("add", {y, c.constant(std::move(t))});
  }
  c.give(0, y);
  return c.done();
}

// An image without its border (left, top, right, bottom), or as much of it behind the left and the top as scale says
// (height, width).
Status crop(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const std::vector<int64_t> border = node.ints("border"), size = node.ints("scale");
  const Shape& x = *c.in(0)->type.shape;
  if (x.size() != 4)
    return invalid("an image has a wrong shape").expecting("[batch, channels, height, width]").but_found(shape_text(x));
  if (border.size() != 4 || (!size.empty() && size.size() != 2))
    return invalid("border and scale have a wrong length").expecting("4 and 2 numbers, or no scale");
  for (const int64_t v : border)
    if (v < 0 || v > INT32_MAX) return invalid("a border is out of range").but_found(std::to_string(v));
  const auto end = [&](size_t axis) {  // of height or width; of the border left out, counted from behind
    if (!size.empty()) return border[1 - axis] + size[axis];
    const int64_t after = border[3 - axis];
    return after == 0 ? INT64_MAX : -after;
  };
  c.give(0, c.op("slice", {c.in(0), c.ints({border[1], border[0]}), c.ints({end(0), end(1)}), c.ints({2, 3})}));
  return c.done();
}

Status dynamic_slice(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  std::vector<ir::Value*> inputs = {c.in(0), c.in(1), c.in(2)};
  if (c.has(3)) inputs.push_back(c.in(3));
  c.give(0, c.op("slice", std::move(inputs)));
  return c.done();
}

std::vector<OpDef> definitions() {
  const Port x{"x", kFloats};
  const AttrSpec alpha{"alpha", AttrKind::kFloat, false, "1"}, beta{"beta", AttrKind::kFloat, false, "1"};
  std::vector<OpDef> out = {
      composed("affine", "Affine", {x}, {alpha, {"beta", AttrKind::kFloat, false, "0"}}, affine),
      composed("crop", "Crop", {x},
               {{"border", AttrKind::kInts, true}, {"scale", AttrKind::kInts, false, "what the border leaves"}}, crop),
      composed("dynamic_slice", "DynamicSlice",
               {{"data", kAnyType}, {"starts", kIndex}, {"ends", kIndex}, {"axes", kIndex, true}},
               std::vector<AttrSpec>{}, dynamic_slice),
      composed("image_scaler", "ImageScaler", {x},
               {{"bias", AttrKind::kFloats, false, "0"}, {"scale", AttrKind::kFloat, false, "1"}}, image_scaler),
      composed("parametric_softplus", "ParametricSoftplus", {x}, {alpha, beta}, around<kSoftplus>),
      composed("scale", "Scale", {x}, std::vector<AttrSpec>{{"scale", AttrKind::kFloat, false, "1"}}, scale),
      composed("scaled_tanh", "ScaledTanh", {x}, {alpha, beta}, around<kTanh>)};
  for (OpDef& op : out) op.domain = "";
  return out;
}
}  // namespace

extern const Entry experimental_entry;
const Entry experimental_entry{definitions()};

}  // namespace peri::ops
