// Pass fold_constants: whatever does not depend on input values is computed; sizes become expressions.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "passes/entry.hpp"
#include "passes/rewrite/move_constant.hpp"

namespace peri::passes {
namespace {
// A folded tensor may be this large, or this many times the size of what it was made from.
constexpr double kMaxBytes = 64 << 20;
constexpr double kMaxGrowth = 16;
// A result with so many operations per byte is expensive to compute again, as the filters of a spectrogram are; up to
// this many bytes of it do not matter in an engine.
constexpr double kExpensiveFlops = 8, kMaxExpensiveBytes = 4 << 20;
// Limits of the operations and elements of one node, and of all nodes of a run of the pass: seconds of the reference.
// More expensive nodes are kept. Counted before anything is evaluated, so that the same graph is always folded in the
// same way.
constexpr double kMaxWork = 0x1p27;
constexpr double kMaxTotalWork = 0x1p30;

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
  const bool expensive = in > 0 && out <= kMaxExpensiveBytes && ops::cost_of(n).flops >= kExpensiveFlops * out;
  return out <= 4096 || expensive || (out <= kMaxBytes && out <= kMaxGrowth * in);
}

// What an evaluation costs: operations of the definition, and every element read and written.
double work_of(const ir::Node& n) {
  auto elements = [](const ir::Value& v) {
    double count = 1;
    for (const Dim& d : *v.type.shape) count *= d.is_const() ? static_cast<double>(d.value()) : 1e30;
    return count;
  };
  double in = 0, out = 0, arguments = 0;
  for (const ir::Value* v : n.inputs)
    if (v) {
      in += elements(*v);
      ++arguments;
    }
  for (const ir::Value* v : n.outputs) out += elements(*v);
  return ops::cost_of(n).flops + in + out * std::max(1.0, arguments);
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

struct Folder {
  ir::Graph& graph;
  std::set<std::string> inputs = {};               // dimensions of the graph's inputs
  std::unordered_set<const ir::Node*> stale = {};  // an input of these is not what it was when they were inferred
  int64_t fresh = 0, rewrites = 0;
  double work = 0;

  explicit Folder(ir::Graph& g) : graph(g), fresh(ops::first_fresh(g)) {
    for (const ir::Value* v : g.inputs)
      for (const Dim& d : *v->type.shape) d.collect_symbols(inputs);
  }

  bool used(const ir::Value* v) const { return !v->users.empty() || graph.is_output(v); }

  void replace(ir::Value* from, ir::Value* to) {
    stale.insert(from->users.begin(), from->users.end());
    graph.replace_uses(from, to);
    ++rewrites;
  }

  // Types anew where inputs have become known; what changes by it makes users stale.
  Status infer(ir::Node* n) {
    if (!stale.contains(n)) return Ok{};
    std::vector<std::pair<ir::Type, std::optional<std::vector<Dim>>>> before;
    for (const ir::Value* v : n->outputs) before.emplace_back(v->type, v->content);
    PERI_TRY(ops::infer_node(*n, &fresh));
    for (size_t k = 0; k < n->outputs.size(); ++k) {
      const ir::Value* v = n->outputs[k];
      if (!(before[k].first == v->type) || !(before[k].second == v->content))
        stale.insert(v->users.begin(), v->users.end());
    }
    return Ok{};
  }

  // Integers whose elements are known expressions: a constant if all are numbers, else dims_constant. A data-dependent
  // size must be read from the value that has it: a dims_constant would not wait for it.
  ir::Value* known_sizes(const ir::Value& v) {
    const std::vector<Dim>& elements = *v.content;
    std::set<std::string> symbols;
    for (const Dim& d : elements) d.collect_symbols(symbols);
    if (symbols.empty()) {
      auto dims = eval(*v.type.shape, {});
      if (!dims.ok()) return nullptr;
      auto t = Tensor::zeros(v.type.dtype, *std::move(dims));
      if (!t.ok() || t->numel() != static_cast<int64_t>(elements.size())) return nullptr;
      for (size_t k = 0; k < elements.size(); ++k) t->set_i64(static_cast<int64_t>(k), elements[k].value());
      return graph.add_constant(v.name, std::move(t).value());
    }
    if (v.type.rank() > 1 || !std::includes(inputs.begin(), inputs.end(), symbols.begin(), symbols.end()))
      return nullptr;
    ir::Attrs attrs;
    attrs["value"] = elements;
    if (v.type.shape->empty()) attrs["scalar"] = int64_t{1};
    if (v.type.dtype != DType::kI64) attrs["type"] = static_cast<int64_t>(v.type.dtype);
    ir::Node* n = graph.add("dims_constant", {}, std::move(attrs), v.name);
    n->out()->type = v.type;
    n->out()->content = elements;
    n->touched_by = {"fold_constants"};
    if (v.producer) n->origins = v.producer->origins;
    return n->out();
  }

  void fold_sizes(const ir::Node& n) {
    for (ir::Value* v : n.outputs)
      if (v->content && used(v))
        if (ir::Value* sizes = known_sizes(*v)) replace(v, sizes);
  }

  void fold_values(const ir::Node& n) {
    if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](const ir::Value* v) { return used(v); })) return;
    if (!all_constant(n) || !worth_it(n)) return;
    const double needed = work_of(n);
    if (needed > kMaxWork || work + needed > kMaxTotalWork) return;
    work += needed;
    auto tensors = evaluate(n);
    if (!tensors.ok()) return;  // an op without a reference stays as it is
    for (size_t k = 0; k < n.outputs.size(); ++k)
      if (ir::Value* v = n.outputs[k]; used(v)) replace(v, graph.add_constant(v->name, std::move((*tensors)[k])));
  }
};

Result<int64_t> run(ir::Graph& graph) {
  Folder folder(graph);
  for (ir::Node* n : std::vector<ir::Node*>(graph.nodes)) {
    PERI_TRY(folder.infer(n));
    if (n->op == "dims_constant") continue;
    folder.fold_sizes(*n);
    folder.fold_values(*n);
  }
  return folder.rewrites;
}
}  // namespace

extern const Entry fold_constants_entry;
const Entry fold_constants_entry{{
    .name = "fold_constants",
    .contract = "No node is left whose inputs are all constant (unless its result would be large and much larger than "
                "its inputs, or expensive to compute), and no "
                "node that only computes sizes: an integer value whose elements are known expressions over the named "
                "dimensions of inputs is a constant or "
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
