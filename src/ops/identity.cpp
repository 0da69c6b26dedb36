// Identity, and dropout in inference: the data is passed through, the mask is all true.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/reference/unary.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
Status infer_identity(InferContext& c) {
  PERI_TRY(infer_same(c));
  content_same(c);
  return Ok{};
}
Status copy(RefCall& call) {
  return move_elements(call, *call.in[0], [](int64_t p) { return p; });
}

Error trains() {
  return unsupported("dropout in training mode has random outputs").advise("export the model for inference");
}
Status infer_dropout(InferContext& c) {
  for (size_t i = 1; i < 3; ++i)
    if (c.has(i) && !one_element(c, i))
      return invalid("the options of dropout must be scalars").but_found(shape_text(c.shape(i)));
  const auto element = [&](size_t i) { return c.has(i) ? c.node.in(i)->constant : std::optional<Tensor>(); };
  const std::optional<Tensor> ratio = element(1), training = element(2);
  const bool drops = training && training->i64(0) != 0 && (ratio ? ratio->f64(0) != 0 : !c.has(1));
  if (drops && c.node.i("in_branch") == 0) return trains();  // in a branch that is not taken it never runs
  PERI_TRY(infer_same(c));
  c.set(1, DType::kBool, c.shape(0));
  return Ok{};
}
Status dropout(RefCall& call) {
  const bool training = call.in.size() > 2 && call.in[2] && call.in[2]->i[0] != 0;
  const double ratio = call.in.size() > 1 && call.in[1] ? call.in[1]->f[0] : 0.5;
  if (training && ratio != 0) return trains();
  PERI_TRY(copy(call));
  if (call.out.size() > 1) std::fill(call.out[1].i.begin(), call.out[1].i.end(), 1);
  return Ok{};
}
Status upgrade_dropout(ir::Graph&, ir::Node& node, int opset) {
  if (opset < 12) node.attrs.erase("ratio");  // has no effect on inference
  return Ok{};
}
}  // namespace

extern const Entry identity_entry;
const Entry identity_entry{{
    {.name = "identity",
     .onnx = "Identity",
     .versions = {1, 13, 14, 16, 19, 21, 23, 24, 25},
     .inputs = {{"x", kMovable}},
     .outputs = {{"y"}},
     .infer = infer_identity,
     .reference = copy,
     .pull = pull_same,
     .cost = cost_view,
     .elementwise = true,
     .view = true,
     .moves = true,
     .samples = {"graph { input x: f32[2,3]; y = identity(x); output y }",
                 "graph { const x: string[2] = [\"a\", \"\"]; y = identity(x); output y }",
                 "graph { input x: bool[3]; y = identity(x); output y }",
                 "graph { input x: u64[0,2]; y = identity(x); output y }"}},
    {.name = "dropout",
     .onnx = "Dropout",
     .versions = {7, 10, 12, 13, 22},
     .inputs = {{"x", kFloats | kFloat8}, {"ratio", kFloats | kFloat8, true}, {"training_mode", kBools, true}},
     .outputs = {{"y"}, {"mask"}},
     .attrs = {{"seed", AttrKind::kInt}, {"in_branch", AttrKind::kInt}},
     .upgrade = upgrade_dropout,
     .infer = infer_dropout,
     .reference = dropout,
     .pull = pull_same,
     .cost = cost_view,
     .moves = true,
     .samples = {"graph { input x: f32[2,3]; y = dropout(x); output y }",
                 "graph { input x: f32[2,3]; y, m = dropout(x); output y; output m }",
                 "graph { input x: f32[2,3]; const r: f32[] = [0.3]; const t: bool[] = [0]; y, m = dropout(x, r, t); "
                 "output y; output m }"}},
}};
}  // namespace peri::ops
