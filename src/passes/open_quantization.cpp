// Pass open_quantization: dequantize_linear and quantize_linear with a single scale next to element-wise nodes and
// normalisations become element-wise nodes.
#include <algorithm>

#include "passes/entry.hpp"
#include "passes/rewrite/quantized.hpp"

namespace peri::passes {
namespace {

bool is_elementwise(const ir::Node* n) {
  const ops::OpDef* op = n ? ops::find(n->op) : nullptr;
  return op && op->elementwise && n->outputs.size() == 1;
}
bool normalises(const ir::Node* n) {
  constexpr std::string_view kOps[] = {"softmax", "layer_normalization", "rms_normalization"};
  return n && std::find(std::begin(kOps), std::end(kOps), n->op) != std::end(kOps) && n->outputs.size() == 1;
}
// What makes the bytes keeps the value that a normalisation reads in its own chain; element-wise readers are chains.
bool takes_opened(const ir::Node* n, const ir::Value* v) {
  return is_elementwise(n) || (normalises(n) && n->in(0) == v);
}

// The ports of from_bytes and to_bytes; a scalar each.
std::vector<ir::Value*> ports(Rewriter& w, ir::Value* x, const Quantized& q) {
  const auto scalar = [&](ir::Value* v, DType t, std::string_view name) {
    if (v && v->constant->rank() == 0) return v;
    return w.scalar(t, v ? v->constant->f64(0) : 0, name);
  };
  return {x, scalar(q.scale, DType::kF32, q.scale->name), scalar(q.zero, q.bytes->type.dtype, q.scale->name + "_zero")};
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op == "dequantize_linear") {
    const auto from = dequantized(n->out());
    const std::vector<ir::Node*>& users = n->out()->users;
    if (!from || !from->one() || from->bytes->constant || users.empty() ||
        (from->bytes->type.dtype != DType::kU8 && from->bytes->type.dtype != DType::kI8) ||
        !std::all_of(users.begin(), users.end(), [&](const ir::Node* u) { return takes_opened(u, n->out()); }))
      return false;
    w.standing_for({n});
    PERI_ASSIGN(ir::Value * y, w.make("from_bytes", ports(w, from->bytes, *from), {}, n->out()));
    w.replace(n->out(), y);
    return true;
  }
  const auto to = quantized(*n);
  const ir::Node* maker = to ? n->in(0)->producer : nullptr;
  if (!to || !(is_elementwise(maker) || normalises(maker)) || !w.used_once(n->in(0))) return false;
  w.standing_for({n});
  PERI_ASSIGN(ir::Value * y, w.make("to_bytes", ports(w, n->inputs[0], *to), {}, n->out()));
  w.replace(n->out(), y);
  return true;
}

// Quantised values that an opened one reads are opened in the next sweep.
Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "open_quantization", rule, 3); }

}  // namespace

extern const Entry open_quantization_entry;
const Entry open_quantization_entry{{
    .name = "open_quantization",
    .contract =
        "A dequantize_linear of bytes by one constant scale whose readers are all element-wise, or a softmax or a "
        "normalisation of it, is from_bytes; a quantize_linear of what only it reads of such a node is to_bytes: "
        "element-wise themselves, so that one region holds the chain from bytes to bytes, and what feeds a softmax or "
        "is made by one is part of the chains beside it. It stands behind the passes that know the two by their names.",
    .follows = {"fuse_quantized"},
    .run = run,
    .examples =
        {{"a sum",
          "graph { input x: u8[3]; input w: u8[3]; const s: f32[] = [0.5]; const z: u8[] = [3]; a = "
          "dequantize_linear(x, "
          "s, z); b = dequantize_linear(w, s); c = add(a, b); y = quantize_linear(c, s, z); output y }",
          "graph { input x: u8[3]; input w: u8[3]; const s: f32[] = [0.5]; const z: u8[] = [3]; const v: u8[] = [0]; a "
          "= "
          "from_bytes(x, s, z); b = from_bytes(w, s, v); c = add(a, b); y = to_bytes(c, s, z); output y }"},
         {"a softmax",
          "graph { input x: u8[3,4]; const s: f32[] = [0.5]; const z: u8[] = [3]; a = dequantize_linear(x, s, z); b = "
          "softmax(a); y = quantize_linear(b, s, z); output y }",
          "graph { input x: u8[3,4]; const s: f32[] = [0.5]; const z: u8[] = [3]; a = from_bytes(x, s, z); b = "
          "softmax(a); y = to_bytes(b, s, z); output y }"},
         {"a reader that is neither",
          "graph { input x: u8[3,4,2,2]; const s: f32[] = [0.5]; a = dequantize_linear(x, s); y = "
          "global_average_pool(a); output y }",
          "graph { input x: u8[3,4,2,2]; const s: f32[] = [0.5]; a = dequantize_linear(x, s); y = "
          "global_average_pool(a); output y }"}},
}};

}  // namespace peri::passes
