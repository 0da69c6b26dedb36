// DynamicQuantizeLSTM of com.microsoft: an LSTM with 8-bit weights. Rows of inputs and of states may be rounded to 16
// bits relative to their largest element where they are multiplied; ONNX Runtime rounds them to 8. A missing zero point
// is the middle of its type, which is what exporters write. Weights that are not constant, or that have another zero
// point, become those of a float32 LSTM.
#include <algorithm>
#include <limits>

#include "ops/reference/cell.hpp"
#include "ops/reference/cost.hpp"
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

// Whether all of a zero point are zero, or of u8 128.
bool in_the_middle(const ir::Value& zero) {
  if (!zero.constant) return false;
  const int64_t middle = zero.type.dtype == DType::kU8 ? 128 : 0;
  for (int64_t k = 0; k < zero.constant->numel(); ++k)
    if (zero.constant->i64(k) != middle) return false;
  return true;
}
// Whether the node's products are those of bytes: sums of so many stay exact.
bool stays(const Composed& c) {
  constexpr int64_t kMaxProducts = 32768;
  for (const size_t port : {kW, kR, kWScale, kRScale})
    if (!c.has(port) || !c.in(port)->constant) return false;
  for (const size_t port : {kBias, kPeephole})
    if (c.has(port) && !c.in(port)->constant) return false;
  for (const size_t port : {kW, kR})
    if (c.in(port)->constant->dims().size() != 3 || c.in(port)->constant->dims()[1] > kMaxProducts) return false;
  return c.in(kW)->type.dtype == c.in(kR)->type.dtype && in_the_middle(*c.in(kWZero)) && in_the_middle(*c.in(kRZero));
}

Status lstm(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  for (const size_t port : {kWScale, kWZero, kRScale, kRZero})
    if (!c.has(port) || c.in(port)->type.rank() < 1 || c.in(port)->type.rank() > 2)
      return invalid("a scale or zero point of DynamicQuantizeLSTM is missing or has a wrong rank")
          .expecting("[directions] or [directions, gates]");
  if (stays(c)) {
    for (const size_t port : {kWZero, kRZero}) graph.set_input(&node, port, nullptr);
    return Ok{};
  }
  std::vector<ir::Value*> inputs = {c.in(kX), weights(c, kW, kWScale, kWZero), weights(c, kR, kRScale, kRZero)};
  for (size_t port = kBias; port <= kPeephole; ++port) inputs.push_back(c.in(port));
  const auto made = c.ops("lstm", inputs, node.attrs, 3);
  for (size_t port = 0; port < made.size(); ++port) c.give(port, made[port]);
  return c.done();
}

constexpr std::string_view kFunctions[] = {"Sigmoid", "Tanh", "Tanh"};

Status infer(InferContext& c) {
  PERI_ASSIGN(const CellNode cell, read_cell(c.node, 4, kFunctions));
  for (const size_t port : {kX, kW, kR})
    if (c.rank(port) != 3)
      return invalid("%s has a wrong rank", port == kX   ? "x"
                                            : port == kW ? "W"
                                                         : "R")
          .expecting(port == kX   ? "[sequence, batch, input]"
                     : port == kW ? "[directions, input, gates]"
                                  : "[directions, hidden, gates]")
          .but_found(shape_text(c.shape(port)));
  const Dim directions(cell.directions), &hidden = c.shape(kR)[1], &steps = c.shape(kX)[0], &batch = c.shape(kX)[1];
  if (const int64_t said = c.node.i("hidden_size", 0); said > 0 && hidden.is_const() && !hidden.is_const(said))
    return invalid("hidden_size is not that of R").expecting(hidden.text()).but_found(std::to_string(said));
  const Dim gates = hidden * 4;
  const Shape state = {directions, batch, hidden};
  PERI_TRY(expect_shape(c, kW, "W", {directions, c.shape(kX)[2], gates}));
  PERI_TRY(expect_shape(c, kR, "R", {directions, hidden, gates}));
  PERI_TRY(expect_shape(c, kBias, "B", {directions, gates * 2}));
  PERI_TRY(expect_shape(c, kLengths, "sequence_lens", {batch}));
  PERI_TRY(expect_shape(c, kState, "initial_h", state));
  PERI_TRY(expect_shape(c, kCell, "initial_c", state));
  PERI_TRY(expect_shape(c, kPeephole, "P", {directions, hidden * 3}));
  for (const size_t port : {kWScale, kWZero, kRScale, kRZero})
    if (c.has(port))
      PERI_TRY(expect_shape(c, port, "a scale or zero point",
                            c.rank(port) == 1 ? Shape{directions} : Shape{directions, gates}));
  c.set(0, c.dtype(kX), {steps, directions, batch, hidden});
  for (size_t k = 1; k < c.out.size(); ++k) c.set(k, c.dtype(kX), state);
  return Ok{};
}

// Bytes [directions, inputs, gates] as the numbers [directions, gates, inputs] that they stand for.
RefTensor numbers(const RefCall& call, size_t port, size_t scale, size_t zero) {
  const RefTensor &bytes = *call.in[port], &s = *call.in[scale];
  const RefTensor* const given = zero < call.in.size() ? call.in[zero] : nullptr;
  const int64_t directions = bytes.dims[0], rows = bytes.dims[1], gates = bytes.dims[2];
  RefTensor out = make_ref(DType::kF32, {directions, gates, rows});
  const auto of = [&](const RefTensor& t, int64_t d, int64_t g) { return t.dims.size() == 1 ? d : d * gates + g; };
  for (int64_t d = 0; d < directions; ++d)
    for (int64_t k = 0; k < rows; ++k)
      for (int64_t g = 0; g < gates; ++g) {
        const int64_t z = given ? given->i[static_cast<size_t>(of(*given, d, g))] : bytes.dtype == DType::kU8 ? 128 : 0;
        const int64_t q = bytes.i[static_cast<size_t>((d * rows + k) * gates + g)] - z;
        out.f[static_cast<size_t>((d * gates + g) * rows + k)] =
            static_cast<double>(q) * s.f[static_cast<size_t>(of(s, d, g))];
      }
  return out;
}

constexpr double kRounding = 1 / 65534.0;  // half a step of 2^15 - 1 of them

// Inputs as they are multiplied.
RefTensor rounded(const RefTensor& x, double u) {
  RefTensor out = x;
  if (out.radius.empty() && u > 0) out.radius.assign(out.f.size(), 0.0);
  const int64_t n = std::max<int64_t>(1, x.dims[2]);
  for (int64_t row = 0; row < x.numel() / n; ++row) {
    double largest = 0;
    bool finite = true;
    for (int64_t k = row * n; k < (row + 1) * n; ++k) {
      finite = finite && std::isfinite(x.f[static_cast<size_t>(k)]);
      largest = std::max(largest, std::fabs(x.f[static_cast<size_t>(k)]) + x.r(k));
    }
    for (int64_t k = row * n; k < (row + 1) * n; ++k) {
      if (!finite) out.f[static_cast<size_t>(k)] = std::numeric_limits<double>::quiet_NaN();
      if (u > 0) out.radius[static_cast<size_t>(k)] += finite ? rounding_radius(largest, kRounding) : 0;
    }
  }
  return out;
}

Status reference(RefCall& call) {
  PERI_ASSIGN(CellNode cell, read_cell(call.node, 4, kFunctions));
  cell.hidden = call.in[kR]->dims[1];
  const RefTensor x = rounded(*call.in[kX], call.u), w = numbers(call, kW, kWScale, kWZero),
                  r = numbers(call, kR, kRScale, kRZero);
  RefCall cells = call;
  cells.in[kX] = &x;
  cells.in[kW] = &w;
  cells.in[kR] = &r;
  PERI_TRY(walk_lstm(cells, cell, kRounding));
  call.out = std::move(cells.out);
  return Ok{};
}

std::vector<Dim> index_ends(const ir::Node& node) { return {(*node.in(kX)->type.shape)[0] + 1}; }

// Each weight once for each step of each sequence.
Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const Shape& x = *node.in(kX)->type.shape;
  c.flops = 2 * elements_of(*node.in(kX)) / std::max(x[2].is_const() ? static_cast<double>(x[2].value()) : 1, 1.0) *
            (elements_of(*node.in(kW)) + elements_of(*node.in(kR)));
  return c;
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
               {"recurrent_weights", kBytes, false, false, kW},
               {"b", f32, true, false, -1, Role::kBias},
               {"sequence_lens", types({DType::kI32}), true, false, -1, Role::kIndex},
               {"initial_h", f32, true},
               {"initial_c", f32, true},
               {"p", f32, true, false, -1, Role::kBias},
               {"w_scale", f32},
               {"w_zero_point", kBytes, true, false, kW},
               {"r_scale", f32},
               {"r_zero_point", kBytes, true, false, kR}};
  op.outputs = {{"y", kAnyType, true}, {"y_h", kAnyType, true}, {"y_c", kAnyType, true}};
  op.attrs = {{"activation_alpha", AttrKind::kFloats, false, "those of the activations"},
              {"activation_beta", AttrKind::kFloats, false, "those of the activations"},
              {"activations", AttrKind::kStrings, false, "Sigmoid, Tanh, Tanh"},
              {"clip", AttrKind::kFloat, false, "none"},
              {"direction", AttrKind::kString, false, "forward"},
              {"hidden_size", AttrKind::kInt},
              {"input_forget", AttrKind::kInt, false, "0"}};
  op.upgrade = lstm;
  op.infer = infer;
  op.reference = reference;
  op.line_axes = cell_line_axes;
  op.cost = cost;
  op.anchor = true;
  op.index_ends = index_ends;
  op.samples = {
      "graph { input x: f32[3,2,4]; const w: i8[1,4,20] = seeded(50, 1); const r: i8[1,5,20] = seeded(50, 2); const s: "
      "f32[1] = [0.008]; const t: f32[1] = [0.007]; y, h, c = dynamic_quantize_lstm(x, w, r, _, _, _, _, _, s, _, t) "
      "{hidden_size=5}; output y; output h; output c }",
      "graph { input x: f32[3,2,4]; const w: u8[2,4,20] = seeded(150, 1); const r: u8[2,5,20] = seeded(150, 2); const "
      "b: f32[2,40] = seeded(0.2, 3); const n: i32[2] = [2, 3]; input i: f32[2,2,5]; input m: f32[2,2,5]; const p: "
      "f32[2,15] = seeded(0.3, 4); const s: f32[2,20] = seeded(0.005, 5); const t: f32[2] = [0.004, 0.003]; y, h, c = "
      "dynamic_quantize_lstm(x, w, r, b, n, i, m, p, s, _, t) {direction=\"bidirectional\"}; output y; output h; "
      "output c }",
      "graph { input x: f32[2,3,4]; const w: i8[1,4,8] = seeded(50, 1); const r: i8[1,2,8] = seeded(50, 2); const s: "
      "f32[1] = [0.01]; y, h, c = dynamic_quantize_lstm(x, w, r, _, _, _, _, _, s, _, s) "
      "{activations=strings[\"Sigmoid\", \"Relu\", \"Tanh\"], clip=0.5, direction=\"reverse\", input_forget=1}; "
      "output y; output c }",
      "graph { input x: f32[2,3,4]; const w: i8[1,4,8] = seeded(50, 1); const r: i8[1,2,8] = seeded(50, 2); const s: "
      "f32[1] = [0.01]; const z: i8[1] = [3]; const v: i8[1,8] = [1, -2, 3, 0, 5, -6, 7, 0]; y, h, c = "
      "dynamic_quantize_lstm(x, w, r, _, _, _, _, _, s, z, s, v); output y; output c }",
      "graph { input x: f32[0,1,3]; const w: i8[1,3,8] = seeded(50, 1); const r: i8[1,2,8] = seeded(50, 2); const s: "
      "f32[1] = [0.01]; input i: f32[1,1,2]; input m: f32[1,1,2]; y, h, c = dynamic_quantize_lstm(x, w, r, _, _, i, m, "
      "_, s, _, s); output y; output h; output c }"};
  return {op};
}
}  // namespace

extern const Entry microsoft_recurrent_entry;
const Entry microsoft_recurrent_entry{definitions()};

}  // namespace peri::ops
