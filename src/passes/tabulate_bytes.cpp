// Pass tabulate_bytes: functions of a single byte become table look-ups.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {
constexpr size_t kMaxNodes = 64;   // of one computation: bounds the walk. Not varied
constexpr int64_t kBytesOf = 256;  // values of a byte

bool is_scalar_constant(const ir::Value* v) { return v->constant && v->constant->numel() == 1; }

// The nodes between bytes and bytes, each before its readers; empty where more than one tensor decides the result.
struct Cone {
  ir::Value* x = nullptr;
  std::vector<const ir::Node*> nodes;
  std::unordered_set<const ir::Node*> seen;
};

// Adds the nodes that produce `v`; false where it is not an element-wise function of one tensor of bytes. `leaves`:
// bytes known not to be such functions.
bool grow(const ir::Value* v, const Shape& shape, Cone* cone, std::unordered_set<const ir::Value*>* leaves) {
  const ir::Node* n = v->producer;
  const ops::OpDef* op = n ? ops::find(n->op) : nullptr;
  if (!op || !op->elementwise || n->outputs.size() != 1 || !(*v->type.shape == shape)) return false;
  if (cone->seen.size() > kMaxNodes) return false;
  if (!cone->seen.insert(n).second) return true;
  for (ir::Value* in : n->inputs) {
    if (!in || is_scalar_constant(in)) continue;
    if (in->constant) return false;
    if (n->op == "from_bytes") {
      // Bytes that are made of bytes are looked up through what makes them.
      Cone through = *cone;
      if (!leaves->contains(in) && grow(in, shape, &through, leaves)) {
        *cone = std::move(through);
        continue;
      }
      leaves->insert(in);
      if ((cone->x && cone->x != in) || !(*in->type.shape == shape)) return false;
      cone->x = in;
      continue;
    }
    if (!grow(in, shape, cone, leaves)) return false;
  }
  cone->nodes.push_back(n);
  return true;
}

// The cone's answer for each byte.
Result<Tensor> tabulate(const Cone& cone, const ir::Value* y) {
  ir::Graph g;
  std::unordered_map<const ir::Value*, ir::Value*> made;
  PERI_ASSIGN(Tensor all, Tensor::zeros(cone.x->type.dtype, {kBytesOf}));
  for (int64_t k = 0; k < kBytesOf; ++k) all.mutable_as<uint8_t>()[k] = static_cast<uint8_t>(k);
  made[cone.x] = g.add_constant("x", std::move(all));
  for (const ir::Node* n : cone.nodes) {
    std::vector<ir::Value*> inputs;
    for (const ir::Value* v : n->inputs) {
      if (v && !made.contains(v)) {
        PERI_ASSIGN(Tensor one, v->constant->reshaped({}));
        made[v] = g.add_constant(v->name, std::move(one));
      }
      inputs.push_back(v ? made.at(v) : nullptr);
    }
    made[n->out()] = g.add(n->op, std::move(inputs), n->attrs)->out();
  }
  g.mark_output(made.at(y), "y");
  PERI_TRY(ops::infer_graph(g));
  PERI_ASSIGN(const std::vector<ops::RefTensor> out, ops::run_reference(g, {}, {0, 1, true}));
  return ops::from_ref(out[0]);
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "to_bytes") return false;
  // In the middle of a chain of bytes the end of it is the one to look up.
  Cone cone;
  std::unordered_set<const ir::Value*> leaves;
  if (!grow(n->out(), *n->out()->type.shape, &cone, &leaves) || !cone.x || cone.nodes.size() < 3) return false;
  PERI_ASSIGN(Tensor table, tabulate(cone, n->out()));
  w.standing_for(cone.nodes);
  ir::Value* const by = w.graph().add_constant(n->out()->name + "_table", std::move(table));
  PERI_ASSIGN(ir::Value * y, w.make("byte_table", {cone.x, by}, {}, n->out()));
  w.replace(n->out(), y);
  return true;
}

// From the end, so that a chain is one table.
Result<int64_t> run(ir::Graph& graph) {
  Rewriter w(graph, "tabulate_bytes");
  std::vector<ir::Node*> nodes = w.nodes();
  std::reverse(nodes.begin(), nodes.end());
  for (ir::Node* n : nodes)
    if (w.live(n)) {
      PERI_ASSIGN([[maybe_unused]] const bool changed, rule(w, n));
    }
  return w.count();
}

}  // namespace

extern const Entry tabulate_bytes_entry;
const Entry tabulate_bytes_entry{{
    .name = "tabulate_bytes",
    .contract =
        "A to_bytes whose result one tensor of bytes decides, element by element through from_bytes and constants, "
        "is a byte_table of it: 256 answers of the reference. Chains of such are one table.",
    .follows = {"open_quantization"},
    .run = run,
    .examples = {{"one answer for all bytes",
                  "graph { input x: u8[3]; const s: f32[] = [0.5]; const z: u8[] = [3]; const n: f32[] = [0.0]; a = "
                  "from_bytes(x, s, z); b = mul(a, n); y = to_bytes(b, s, z); output y }",
                  "graph { input x: u8[3]; const t: u8[256] = splat(3); y = byte_table(x, t); output y }"},
                 {"two tensors stay",
                  "graph { input x: u8[3]; input w: u8[3]; const s: f32[] = [0.5]; const z: u8[] = [3]; a = "
                  "from_bytes(x, s, z); b "
                  "= from_bytes(w, s, z); c = add(a, b); y = to_bytes(c, s, z); output y }",
                  "graph { input x: u8[3]; input w: u8[3]; const s: f32[] = [0.5]; const z: u8[] = [3]; a = "
                  "from_bytes(x, s, z); b "
                  "= from_bytes(w, s, z); c = add(a, b); y = to_bytes(c, s, z); output y }"}},
}};

}  // namespace peri::passes
