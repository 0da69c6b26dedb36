// Pass move_quantization: ops that only move elements move bytes instead of dequantised numbers.
#include <algorithm>

#include "passes/entry.hpp"
#include "passes/rewrite/quantized.hpp"

namespace peri::passes {
namespace {

// Ops that copy elements of their first input; their other inputs are sizes and indices. A maximum is one of them: a
// positive scale preserves the order.
bool moves_bytes(const ir::Node& n) {
  static constexpr std::string_view kOps[] = {"reshape", "transpose", "squeeze", "unsqueeze", "flatten",
                                              "gather",  "slice",     "expand",  "max_pool",  "identity"};
  return n.outputs.size() == 1 && std::find(std::begin(kOps), std::end(kOps), n.op) != std::end(kOps);
}

// Bytes that are quantised as they were are the same bytes.
bool cancel(Rewriter& w, ir::Node* n) {
  const auto to = quantized(*n);
  const auto from = to ? dequantized(n->in(0)) : std::nullopt;
  if (!from || !same_quantization(*from, *to)) return false;
  w.replace(n->out(), from->bytes);
  return true;
}

// Bytes behind `n` as they are before it, with the axis of their scales there; none: their scales do not move with
// them.
std::optional<Quantized> moved_by(const ir::Node& n) {
  if (!moves_bytes(n)) return std::nullopt;
  auto from = dequantized(n.in(0));
  if (!from || from->one()) return from;
  if (n.op != "transpose") return std::nullopt;
  const std::vector<int64_t>& perm = n.ints("perm");
  const int64_t axis = wrap_axis(from->axis, from->bytes->type.rank());
  const auto at = std::find(perm.begin(), perm.end(), axis);
  if (at == perm.end()) return std::nullopt;
  from->axis = at - perm.begin();
  return from;
}

constexpr int kMaxMoves = 8;  // between a value and the product that reads it

bool comes_from_bytes(const ir::Value* v) {
  for (int k = 0; v && k < kMaxMoves; ++k) {
    if (dequantized(v)) return true;
    if (!v->producer || !moves_bytes(*v->producer) || v->producer->op == "max_pool") return false;
    v = v->producer->in(0);
  }
  return false;
}

// Whether all that reads it, through other moves, are products of what was bytes with what was.
bool goes_to_products(const ir::Graph& graph, const ir::Value* v, int moves = 0) {
  if (moves == kMaxMoves || graph.is_output(v) || v->users.empty()) return false;
  return std::all_of(v->users.begin(), v->users.end(), [&](const ir::Node* u) {
    if (moves_bytes(*u)) return u->in(0) == v && u->op != "max_pool" && goes_to_products(graph, u->out(), moves + 1);
    return (u->op == "matmul" || u->op == "gemm") && u->in(2) != v && comes_from_bytes(u->in(0)) &&
           comes_from_bytes(u->in(1));
  });
}

bool back_to_bytes(const ir::Value* v, const Quantized& from) {
  return from.one() && !v->users.empty() && std::all_of(v->users.begin(), v->users.end(), [&](const ir::Node* u) {
           const auto to = quantized(*u);
           return to && u->in(0) == v && same_quantization(from, *to);
         });
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op == "quantize_linear") return cancel(w, n);
  const auto from = moved_by(*n);
  if (!from || w.graph().is_output(n->out())) return false;
  if (!back_to_bytes(n->out(), *from) && (n->op == "max_pool" || !goes_to_products(w.graph(), n->out()))) return false;
  std::vector<ir::Value*> inputs = n->inputs;
  inputs[0] = from->bytes;
  w.standing_for({n, from->node});
  PERI_ASSIGN(ir::Value * moved, w.make(n->op, std::move(inputs), n->attrs, n->out()));
  std::vector<ir::Value*> scaled = {moved, from->scale};
  if (from->zero) scaled.push_back(from->zero);
  auto attrs = from->node->attrs;
  if (!from->one()) attrs["axis"] = from->axis;
  PERI_ASSIGN(ir::Value * y, w.make("dequantize_linear", std::move(scaled), std::move(attrs), n->out()));
  w.replace(n->out(), y);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "move_quantization", rule, 2); }

}  // namespace

extern const Entry move_quantization_entry;
const Entry move_quantization_entry{{
    .name = "move_quantization",
    .contract =
        "Views, transposes, gathers, slices and maxima between a dequantize_linear and quantize_linear nodes of "
        "the same scale and zero point move bytes, and the two are gone; all but maxima between a dequantize_linear "
        "and matrix products whose other side was bytes too move bytes, which the product reads. It stands before "
        "constants are folded, which would make tables of bytes tables of float32.",
    .run = run,
    .examples =
        {{"transpose",
          "graph { input x: u8[2,3]; const s: f32[] = [0.5]; const z: u8[] = [3]; a = dequantize_linear(x, s, z); b = "
          "transpose(a) {perm=[1,0]}; y = quantize_linear(b, s, z); output y }",
          "graph { input x: u8[2,3]; y = transpose(x) {perm=[1,0]}; output y }"},
         {"a table of bytes",
          "graph { input i: i64[3]; const w: u8[4,5] = splat(7); const s: f32[] = [0.5]; const z: u8[] = [3]; a = "
          "dequantize_linear(w, s, z); b = gather(a, i); y = quantize_linear(b, s, z); output y }",
          "graph { input i: i64[3]; const w: u8[4,5] = splat(7); y = gather(w, i); output y }"},
         {"to a product",
          "graph { input x: u8[2,12]; input b: i8[3,4]; const s: f32[] = [0.5]; const z: u8[] = [3]; const d: "
          "i64[3] = [2, 4, 3]; a = dequantize_linear(x, s, z); v = reshape(a, d); t = transpose(v) {perm=[0,2,1]}; w = "
          "dequantize_linear(b, s); c = transpose(w) {perm=[1,0]}; y = matmul(t, c); output y }",
          "graph { input x: u8[2,12]; input b: i8[3,4]; const s: f32[] = [0.5]; const z: u8[] = [3]; const d: "
          "i64[3] = [2, 4, 3]; v = reshape(x, d); t = transpose(v) {perm=[0,2,1]}; a = dequantize_linear(t, s, z); c = "
          "transpose(b) "
          "{perm=[1,0]}; w = dequantize_linear(c, s); y = matmul(a, w); output y }"},
         {"scales of the rows of a weight become those of its columns",
          "graph { input x: u8[2,4]; const b: i8[3,4] = splat(5); const s: f32[] = [0.5]; const r: f32[3] = [1, 2, 3]; "
          "a = dequantize_linear(x, s); w = dequantize_linear(b, r) {axis=0}; c = transpose(w) {perm=[1,0]}; y = "
          "matmul(a, c); output y }",
          "graph { input x: u8[2,4]; const b: i8[3,4] = splat(5); const s: f32[] = [0.5]; const r: f32[3] = [1, 2, 3]; "
          "a = dequantize_linear(x, s); c = transpose(b) {perm=[1,0]}; w = dequantize_linear(c, r) {axis=1}; y = "
          "matmul(a, w); output y }"},
         {"one side of a product of numbers stays",
          "graph { input x: u8[2,4]; input b: f32[2,3]; const s: f32[] = [0.5]; a = dequantize_linear(x, s); t = "
          "transpose(a) {perm=[1,0]}; y = matmul(t, b); output y }",
          "graph { input x: u8[2,4]; input b: f32[2,3]; const s: f32[] = [0.5]; a = dequantize_linear(x, s); t = "
          "transpose(a) {perm=[1,0]}; y = matmul(t, b); output y }"},
         {"another scale stays",
          "graph { input x: u8[2,3]; const s: f32[] = [0.5]; const t: f32[] = [0.25]; a = dequantize_linear(x, s); b = "
          "transpose(a) {perm=[1,0]}; y = quantize_linear(b, t); output y }",
          "graph { input x: u8[2,3]; const s: f32[] = [0.5]; const t: f32[] = [0.25]; a = dequantize_linear(x, s); b = "
          "transpose(a) {perm=[1,0]}; y = quantize_linear(b, t); output y }"}},
}};

}  // namespace peri::passes
