// CausalConvWithState, replaced by other ops at import: the state and the input concatenated, a depthwise convolution,
// and the end of the concatenation as the next state.
#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {
Status upgrade(ir::Graph& graph, ir::Node& node, int) {
  enum : size_t { kX, kWeight, kBias, kPast };
  Composed c(graph, node);
  const Shape &x = *c.in(kX)->type.shape, &w = *c.in(kWeight)->type.shape;
  if (x.size() != 3 || w.size() != 3 || !w[0].is_const() || !w[2].is_const() || w[2].value() < 1)
    return unsupported("a convolution with state whose kernel is not known")
        .expecting("[batch, channels, length] and [channels, 1, k]")
        .but_found(shape_text(x) + " and " + shape_text(w));
  const std::string activation = node.s("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return invalid("activation is unknown").expecting("none, silu or swish").but_found(activation);
  const int64_t before = w[2].value() - 1;
  ir::Value* all = c.in(kX);
  if (c.has(kPast))
    all = c.op("concat", {c.in(kPast), all}, {{"axis", int64_t{2}}});
  else if (before > 0)
    all = c.op("pad", {all, c.ints({0, 0, before, 0, 0, 0})});
  std::vector<ir::Value*> inputs = {all, c.in(kWeight)};
  if (c.has(kBias)) inputs.push_back(c.in(kBias));
  ir::Value* y = c.op("conv", inputs, {{"group", w[0].value()}});
  if (activation != "none") y = c.op("swish", {y});
  c.give(0, y);
  if (c.wants(1)) c.give(1, before > 0 ? c.slice(all, 2, -before, INT64_MAX) : c.slice(all, 2, 0, 0));
  return c.done();
}

std::vector<OpDef> definitions() {
  OpDef op =
      composed("causal_conv_with_state", "CausalConvWithState",
               {{"x", kFloats},
                {"kernel", kFloats, false, false, 0},
                {"bias", kFloats, true, false, 0, Role::kBias},
                {"past_state", kFloats, true, false, 0}},
               {{"y"}, {"present_state", kAnyType, true}}, {{"activation", AttrKind::kString, false, "none"}}, upgrade);
  op.domain = "";
  op.versions = {27};
  return {op};
}
}  // namespace

extern const Entry causal_conv_entry;
const Entry causal_conv_entry{definitions()};

}  // namespace peri::ops
