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

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op == "quantize_linear") return cancel(w, n);
  if (!moves_bytes(*n)) return false;
  const auto from = dequantized(n->in(0));
  if (!from || !from->one() || w.graph().is_output(n->out())) return false;
  const std::vector<ir::Node*>& users = n->out()->users;
  const bool back = !users.empty() && std::all_of(users.begin(), users.end(), [&](const ir::Node* u) {
    const auto to = quantized(*u);
    return to && u->in(0) == n->out() && same_quantization(*from, *to);
  });
  if (!back) return false;
  std::vector<ir::Value*> inputs = n->inputs;
  inputs[0] = from->bytes;
  w.standing_for({n, from->node});
  PERI_ASSIGN(ir::Value * moved, w.make(n->op, std::move(inputs), n->attrs, n->out()));
  std::vector<ir::Value*> scaled = {moved, from->scale};
  if (from->zero) scaled.push_back(from->zero);
  PERI_ASSIGN(ir::Value * y, w.make("dequantize_linear", std::move(scaled), from->node->attrs, n->out()));
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
        "the same scale and zero point move bytes, and the two are gone. It stands before constants are folded, "
        "which would make tables of bytes tables of float32.",
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
         {"another scale stays",
          "graph { input x: u8[2,3]; const s: f32[] = [0.5]; const t: f32[] = [0.25]; a = dequantize_linear(x, s); b = "
          "transpose(a) {perm=[1,0]}; y = quantize_linear(b, t); output y }",
          "graph { input x: u8[2,3]; const s: f32[] = [0.5]; const t: f32[] = [0.25]; a = dequantize_linear(x, s); b = "
          "transpose(a) {perm=[1,0]}; y = quantize_linear(b, t); output y }"}},
}};

}  // namespace peri::passes
