// DynamicQuantizeLSTM of com.microsoft: an LSTM whose weights are bytes. They are made float32; the input and the state
// stay as they are, where ONNX Runtime rounds them to bytes at each step.
#include "ops/reference/quantized.hpp"
#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {

enum : size_t { kX, kW, kR, kBias, kLengths, kState, kCell, kPeephole, kWScale, kWZero, kRScale, kRZero };

// Bytes [directions, inputs, gates] by scales [directions] or [directions, gates], as [directions, gates, inputs].
ir::Value* weights(Composed& c, size_t port, size_t scale, size_t zero) {
  // As f32, one for all inputs.
  const auto wide = [&](ir::Value* v) {
    const size_t rank = v->type.rank();
    return c.op("unsqueeze",
                {c.cast(v, DType::kF32), c.ints(rank == 1 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1})});
  };
  ir::Value* const from = c.op("sub", {c.cast(c.in(port), DType::kF32), wide(c.in(zero))});
  return c.op("transpose", {c.op("mul", {from, wide(c.in(scale))})}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
}

Status lstm(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  for (const size_t port : {kWScale, kWZero, kRScale, kRZero})
    if (!c.has(port) || c.in(port)->type.rank() < 1 || c.in(port)->type.rank() > 2)
      return invalid("a scale or zero point of DynamicQuantizeLSTM is missing or has a wrong rank")
          .expecting("[directions] or [directions, gates]");
  std::vector<ir::Value*> inputs = {c.in(kX), weights(c, kW, kWScale, kWZero), weights(c, kR, kRScale, kRZero)};
  for (size_t port = kBias; port <= kPeephole; ++port) inputs.push_back(c.in(port));
  const auto made = c.ops("lstm", inputs, node.attrs, 3);
  for (size_t port = 0; port < made.size(); ++port) c.give(port, made[port]);
  return c.done();
}

std::vector<OpDef> definitions() {
  OpDef op;
  op.name = "dynamic_quantize_lstm";
  op.onnx = "DynamicQuantizeLSTM";
  op.domain = "com.microsoft";
  op.versions = {1};
  const TypeSet f32 = types({DType::kF32});
  op.inputs = {{"x", f32},
               {"input_weights", kBytes},
               {"recurrent_weights", kBytes},
               {"b", f32, true},
               {"sequence_lens", types({DType::kI32}), true},
               {"initial_h", f32, true},
               {"initial_c", f32, true},
               {"p", f32, true},
               {"w_scale", f32},
               {"w_zero_point", kBytes},
               {"r_scale", f32},
               {"r_zero_point", kBytes}};
  op.outputs = {{"y", kAnyType, true}, {"y_h", kAnyType, true}, {"y_c", kAnyType, true}};
  op.attrs = {{"activation_alpha", AttrKind::kFloats, false, "those of the activations"},
              {"activation_beta", AttrKind::kFloats, false, "those of the activations"},
              {"activations", AttrKind::kStrings, false, "Sigmoid, Tanh, Tanh"},
              {"clip", AttrKind::kFloat, false, "none"},
              {"direction", AttrKind::kString, false, "forward"},
              {"hidden_size", AttrKind::kInt},
              {"input_forget", AttrKind::kInt, false, "0"}};
  op.upgrade = lstm;
  op.infer = infer_composed;
  return {op};
}
}  // namespace

extern const Entry microsoft_recurrent_entry;
const Entry microsoft_recurrent_entry{definitions()};

}  // namespace peri::ops
