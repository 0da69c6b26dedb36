// Pass fold_constants: whatever does not depend on input values is computed now; sizes become expressions.
#include <algorithm>

#include "passes/core/move_constant.hpp"
#include "passes/entry.hpp"

namespace peri::passes {
namespace {
// A folded tensor may be this large, or this many times the size of what it was made from.
constexpr double kMaxBytes = 64 << 20;
constexpr double kMaxGrowth = 16;

bool all_constant(const ir::Node& n) {
  for (const ir::Value* v : n.inputs)
    if (v && !v->constant) return false;
  return true;
}

double bytes_of(const ir::Value& v) {
  double n = dtype_bits(v.type.dtype) / 8.0;
  for (const Dim& d : *v.type.shape) n *= d.is_const() ? static_cast<double>(d.value()) : 1e30;
  return n;
}

bool worth_it(const ir::Node& n) {
  double in = 0, out = 0;
  for (const ir::Value* v : n.inputs)
    if (v) in += bytes_of(*v);
  for (const ir::Value* v : n.outputs) out += bytes_of(*v);
  return out <= 4096 || (out <= kMaxBytes && out <= kMaxGrowth * in);
}

// The node alone, evaluated by the reference and rounded to its types.
Result<std::vector<Tensor>> evaluate(const ir::Node& n) {
  if (auto moved = moved_constant(n)) return std::vector<Tensor>{*std::move(moved)};
  ir::Graph g;
  std::vector<ir::Value*> ins;
  for (const ir::Value* v : n.inputs) ins.push_back(v ? g.add_constant(v->name, *v->constant) : nullptr);
  ir::Node* copy = g.add(n.op, ins, n.attrs, "", static_cast<int>(n.outputs.size()));
  for (ir::Value* v : copy->outputs) g.mark_output(v, v->name);
  PERI_TRY(ops::infer_graph(g));
  PERI_ASSIGN(const std::vector<ops::RefTensor> out, ops::run_reference(g, {}, {0, 1, true}));
  std::vector<Tensor> tensors;
  for (const ops::RefTensor& t : out) tensors.push_back(ops::from_ref(t));
  return tensors;
}

// Integers whose elements are known expressions: a constant if all are numbers, else dims_constant.
ir::Value* known_sizes(ir::Graph& graph, const ir::Value& v) {
  const std::vector<Dim>& elements = *v.content;
  const bool numbers = std::all_of(elements.begin(), elements.end(), [](const Dim& d) { return d.is_const(); });
  if (numbers) {
    auto t = Tensor::zeros(v.type.dtype, v.type.shape->empty()
                                             ? std::vector<int64_t>{}
                                             : std::vector<int64_t>{static_cast<int64_t>(elements.size())});
    if (!t.ok()) return nullptr;
    for (size_t k = 0; k < elements.size(); ++k) t->set_i64(static_cast<int64_t>(k), elements[k].value());
    return graph.add_constant(v.name, std::move(t).value());
  }
  if (v.type.dtype != DType::kI64) return nullptr;
  ir::Attrs attrs;
  attrs["value"] = elements;
  if (v.type.shape->empty()) attrs["scalar"] = int64_t{1};
  ir::Node* n = graph.add("dims_constant", {}, std::move(attrs), v.name);
  n->out()->type = v.type;
  n->out()->content = elements;
  n->touched_by = {"fold_constants"};
  return n->out();
}

Result<int64_t> run(ir::Graph& graph) {
  int64_t rewrites = 0;
  for (ir::Node* n : std::vector<ir::Node*>(graph.nodes)) {
    if (n->op == "dims_constant") continue;
    for (ir::Value* v : n->outputs) {
      if (!v->content || (v->users.empty() && !graph.is_output(v)) || v->type.shape->size() > 1) continue;
      if (ir::Value* sizes = known_sizes(graph, *v)) {
        graph.replace_uses(v, sizes);
        ++rewrites;
      }
    }
    const bool used = std::any_of(n->outputs.begin(), n->outputs.end(),
                                  [&](const ir::Value* v) { return !v->users.empty() || graph.is_output(v); });
    if (!used || !all_constant(*n) || !worth_it(*n)) continue;
    auto tensors = evaluate(*n);
    if (!tensors.ok()) continue;  // an op without a reference stays as it is
    for (size_t k = 0; k < n->outputs.size(); ++k) {
      ir::Value* v = n->outputs[k];
      if (v->users.empty() && !graph.is_output(v)) continue;
      graph.replace_uses(v, graph.add_constant(v->name, std::move((*tensors)[k])));
      ++rewrites;
    }
  }
  return rewrites;
}
}  // namespace

extern const Entry fold_constants_entry;
const Entry fold_constants_entry{{
    .name = "fold_constants",
    .contract = "No node is left whose inputs are all constant (unless its result would be large and much larger than "
                "its inputs), and no "
                "node that only computes sizes: an integer value whose elements are known expressions over named "
                "dimensions is a constant or "
                "one dims_constant. It stands early, because every later pattern reads shapes and constants.",
    .follows = {"eliminate_identity"},
    .run = run,
    .examples =
        {{"arithmetic",
          "graph { input x: f32[2]; const a: f32[2] = [1.0, 2.0]; const b: f32[2] = [3.0, 4.0]; c = add(a, b); y = "
          "mul(x, c); output y }",
          "graph { input x: f32[2]; const c: f32[2] = [4.0, 6.0]; y = mul(x, c); output y }"},
         {"moved weights",
          "graph { input x: f32[2]; const w: f32[2,3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; t = transpose(w) {perm=[1, "
          "0]}; y = matmul(t, x); output y }",
          "graph { input x: f32[2]; const t: f32[3,2] = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]; y = matmul(t, x); output y }"},
         {"shape arithmetic",
          "graph { input x: f32[batch,4,6]; const i: i64[1] = [0]; const m: i64[1] = [-1]; s = shape(x); d = gather(s, "
          "i); t = concat(d, m) {axis=0}; y = reshape(x, t); output y }",
          "graph { input x: f32[batch,4,6]; t = dims_constant() {value=dims[batch,-1]}; y = reshape(x, t); output y "
          "}"}},
}};

}  // namespace peri::passes
