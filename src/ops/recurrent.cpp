// RNN, GRU, LSTM: a cell applied along a sequence forwards, backwards, or both, each direction with its own weights. x
// is [sequence, batch, input] (layout 0); y holds the state after each step, zeros beyond a sequence's length.
#include <algorithm>

#include "ops/reference/cell.hpp"
#include "ops/reference/cost.hpp"

namespace peri::ops {
namespace {

constexpr std::string_view kRnn[] = {"Tanh"}, kGru[] = {"Sigmoid", "Tanh"}, kLstm[] = {"Sigmoid", "Tanh", "Tanh"};

template <int64_t kGates, auto& kDefaults>
Status infer(InferContext& c) {
  PERI_ASSIGN(const CellNode cell, read_cell(c.node, kGates, kDefaults));
  return infer_cell(c, cell);
}

Status infer_lstm(InferContext& c) {
  PERI_TRY((infer<4, kLstm>(c)));
  const bool batch_first = c.node.i("layout") != 0;
  const Shape &x = c.shape(0), &r = c.shape(2);
  const Dim &batch = x[!batch_first], &hidden = r[2], &directions = r[0];
  PERI_TRY(expect_shape(c, 6, "initial_c",
                        batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden}));
  return expect_shape(c, 7, "P", {directions, hidden * 3});
}

// h = f(x W + h R + biases)
Status rnn(RefCall& call) {
  PERI_ASSIGN(const CellNode cell, read_cell(call.node, 1, kRnn));
  PERI_TRY(check_lengths(call, cell));
  CellRun run(call, cell);
  std::vector<Near> products;
  for (int64_t d = 0; d < cell.directions; ++d)
    run.walk(d, [&](int64_t b) {
      Near* h = run.state(b);
      run.from_state(h, 0, 1, products);
      for (int64_t j = 0; j < cell.hidden; ++j)
        h[j] = run.function(0)(cell.clipped(plus(run.from_input(b, 0, j), products[static_cast<size_t>(j)], call.u)),
                               call.u);
    });
  return Ok{};
}

// Gates z, r, h. h = (1 - z) g(...) + z h, where r scales the state before its product, or the product.
Status gru(RefCall& call) {
  PERI_ASSIGN(const CellNode cell, read_cell(call.node, 3, kGru));
  PERI_TRY(check_lengths(call, cell));
  CellRun run(call, cell);
  const bool after = call.node.i("linear_before_reset") != 0;
  const int64_t n = cell.hidden;
  const double u = call.u;
  std::vector<Near> products, last, z(static_cast<size_t>(n)), reset(z);
  for (int64_t d = 0; d < cell.directions; ++d)
    run.walk(d, [&](int64_t b) {
      Near* h = run.state(b);
      run.from_state(h, 0, after ? 3 : 2, products);
      const auto gate = [&](int64_t g, int64_t j, Near product) {
        return run.function(g == 2)(cell.clipped(plus(run.from_input(b, g, j), product, u)), u);
      };
      for (int64_t j = 0; j < n; ++j) {
        const size_t at = static_cast<size_t>(j);
        z[at] = gate(0, j, products[at]);
        const Near r = gate(1, j, products[static_cast<size_t>(n + j)]);
        reset[at] = times(r, after ? products[static_cast<size_t>(2 * n + j)] : h[j]);
        reset[at].r += u * std::fabs(reset[at].v);
      }
      if (!after) run.from_state(reset.data(), 2, 1, last);
      for (int64_t j = 0; j < n; ++j) {
        const size_t at = static_cast<size_t>(j);
        const Near made = gate(2, j, after ? reset[at] : last[at]), kept = times(z[at], h[j]);
        Near fresh = times(minus_from_one(z[at], u), made);
        fresh.r += u * (std::fabs(fresh.v) + std::fabs(kept.v));
        h[j] = plus(fresh, kept, u);
      }
    });
  return Ok{};
}

Status lstm(RefCall& call) {
  PERI_ASSIGN(const CellNode cell, read_cell(call.node, 4, kLstm));
  return walk_lstm(call, cell, 0);
}

double fan_in(const ir::Node&, std::span<const int64_t> weight) {
  return weight.empty() ? 1 : static_cast<double>(weight.back());
}

// Lengths of sequences: from nothing to all steps.
std::vector<Dim> index_ends(const ir::Node& node) { return {(*node.in(0)->type.shape)[node.i("layout") != 0] + 1}; }

// Each weight once for each step of each sequence.
Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const Shape& x = *node.in(0)->type.shape;
  c.flops = 2 * elements_of(*node.in(0)) / std::max(x[2].is_const() ? static_cast<double>(x[2].value()) : 1, 1.0) *
            (elements_of(*node.in(1)) + elements_of(*node.in(2)));
  return c;
}

OpDef recurrent(std::string_view name, std::string_view onnx, Status (*infer)(InferContext&),
                Status (*reference)(RefCall&)) {
  return {.name = name,
          .onnx = onnx,
          .versions = {7, 14, 22},
          .inputs = {{"x", kFloats},
                     {"w", kFloats, false, false, 0, Role::kWeight},
                     {"r", kFloats, false, false, 0, Role::kWeight},
                     {"bias", kFloats, true, false, 0, Role::kBias},
                     {"sequence_lens", types({DType::kI32}), true, false, -1, Role::kIndex},
                     {"initial_h", kFloats, true, false, 0}},
          .outputs = {{"y", kAnyType, true}, {"y_h", kAnyType, true}},
          .attrs = {{"activation_alpha", AttrKind::kFloats, false, "those of the operators"},
                    {"activation_beta", AttrKind::kFloats, false, "those of the operators"},
                    {"activations", AttrKind::kStrings, false, "Sigmoid and Tanh, as the cell has them"},
                    {"clip", AttrKind::kFloat, false, "none"},
                    {"direction", AttrKind::kString, false, "forward"},
                    {"hidden_size", AttrKind::kInt, false, "that of R"},
                    {"layout", AttrKind::kInt, false, "0"}},
          .infer = infer,
          .reference = reference,
          .line_axes = cell_line_axes,
          .cost = cost,
          .anchor = true,
          .stores = "states between steps",
          .fan_in = fan_in,
          .index_ends = index_ends};
}

OpDef rnn_op() {
  OpDef op = recurrent("rnn", "RNN", infer<1, kRnn>, rnn);
  op.samples = {
      "graph { input x: f32[3,2,4]; const w: f32[1,5,4] = seeded(0.5, 1); const r: f32[1,5,5] = seeded(0.4, 2); y, h = "
      "rnn(x, w, r) {hidden_size=5}; output y; output h }",
      "graph { input x: f32[2,3,4]; const w: f32[2,5,4] = seeded(0.5, 1); const r: f32[2,5,5] = seeded(0.4, 2); const "
      "b: f32[2,10] = seeded(0.2, 3); const n: i32[2] = [3, 1]; input s: f32[2,2,5]; y, h = rnn(x, w, r, b, n, s) "
      "{activations=strings[\"Relu\", \"Softsign\"], clip=0.75, direction=\"bidirectional\", hidden_size=5, layout=1}; "
      "output y; output h }",
      "graph { input x: f32[2,1,3]; const w: f32[1,2,3] = seeded(0.5, 1); const r: f32[1,2,2] = seeded(0.4, 2); y, h = "
      "rnn(x, w, r) {activation_alpha=[0.3], activation_beta=[0.1], activations=strings[\"Affine\"], "
      "direction=\"reverse\"}; output h }",
      "graph { input x: f32[4,0,3]; const w: f32[1,2,3] = seeded(0.5, 1); const r: f32[1,2,2] = seeded(0.4, 2); y, h = "
      "rnn(x, w, r); output y; output h }"};
  return op;
}

OpDef gru_op() {
  OpDef op = recurrent("gru", "GRU", infer<3, kGru>, gru);
  op.attrs.push_back({"linear_before_reset", AttrKind::kInt, false, "0"});
  op.samples = {
      "graph { input x: f32[3,2,4]; const w: f32[1,15,4] = seeded(0.5, 1); const r: f32[1,15,5] = seeded(0.4, 2); y, h "
      "= gru(x, w, r) {hidden_size=5}; output y; output h }",
      "graph { input x: f32[3,2,4]; const w: f32[2,15,4] = seeded(0.5, 1); const r: f32[2,15,5] = seeded(0.4, 2); "
      "const "
      "b: f32[2,30] = seeded(0.2, 3); const n: i32[2] = [2, 3]; input s: f32[2,2,5]; y, h = gru(x, w, r, b, n, s) "
      "{direction=\"bidirectional\", linear_before_reset=1}; output y; output h }",
      "graph { input x: f32[2,3,4]; const w: f32[1,6,4] = seeded(0.5, 1); const r: f32[1,6,2] = seeded(0.4, 2); const "
      "b: f32[1,12] = seeded(0.2, 3); y, h = gru(x, w, r, b) {activation_alpha=[0.25], activation_beta=[0.4], "
      "activations=strings[\"HardSigmoid\", \"Tanh\"], direction=\"reverse\", layout=1}; output y; output h }",
      "graph { input x: f16[2,1,3]; const w: f16[1,6,3] = seeded(0.5, 1); const r: f16[1,6,2] = seeded(0.4, 2); y, h = "
      "gru(x, w, r); output y; output h }"};
  return op;
}

OpDef lstm_op() {
  OpDef op = recurrent("lstm", "LSTM", infer_lstm, lstm);
  op.inputs.push_back({"initial_c", kFloats, true, false, 0});
  op.inputs.push_back({"p", kFloats, true, false, 0, Role::kBias});
  op.outputs.push_back({"y_c", kAnyType, true});
  op.attrs.push_back({"input_forget", AttrKind::kInt, false, "0"});
  op.samples = {
      "graph { input x: f32[3,2,4]; const w: f32[1,20,4] = seeded(0.5, 1); const r: f32[1,20,5] = seeded(0.4, 2); y, "
      "h, c = lstm(x, w, r) {hidden_size=5}; output y; output h; output c }",
      "graph { input x: f32[3,2,4]; const w: f32[2,20,4] = seeded(0.5, 1); const r: f32[2,20,5] = seeded(0.4, 2); "
      "const "
      "b: f32[2,40] = seeded(0.2, 3); const n: i32[2] = [2, 3]; input s: f32[2,2,5]; input m: f32[2,2,5]; const p: "
      "f32[2,15] = seeded(0.3, 4); y, h, c = lstm(x, w, r, b, n, s, m, p) {direction=\"bidirectional\"}; output y; "
      "output h; output c }",
      "graph { input x: f32[2,3,4]; const w: f32[1,8,4] = seeded(0.5, 1); const r: f32[1,8,2] = seeded(0.4, 2); y, h, "
      "c "
      "= lstm(x, w, r) {clip=0.5, direction=\"reverse\", input_forget=1, layout=1}; output y; output c }",
      "graph { input x: f32[0,1,3]; const w: f32[1,8,3] = seeded(0.5, 1); const r: f32[1,8,2] = seeded(0.4, 2); input "
      "s: f32[1,1,2]; input m: f32[1,1,2]; y, h, c = lstm(x, w, r, _, _, s, m); output y; output h; output c }"};
  return op;
}

}  // namespace

extern const Entry recurrent_entry;
const Entry recurrent_entry{{rnn_op(), gru_op(), lstm_op()}};

}  // namespace peri::ops
