// Texts of anchors with steps after them, and the conversion of a text to a problem.
#include "tune/sample_regions.hpp"

#include <algorithm>
#include <set>

#include "exec/region/region_payload.hpp"
#include "kernels/entry.hpp"
#include "problem/problem.hpp"

namespace peri::tune {

namespace {
// A sample is held against the reference in full, which does 0.1 to 1 GFLOP a second
// (benchmarks/results/2026-11-22_constants.md): 12 to 120 ms. Anchors above the other bound get the chains that meet
// the memory of results, and not all of some dozens.
constexpr double kMaxFlops = 1.2e7, kMaxAllChainsFlops = 1.5e6;
constexpr int64_t kMaxInlineElements = 16;  // smaller constants stay inside a region

// Every way a product's columns, rows and sums are cut: odd tails of tiles, several panels, row blocks and tasks, sums
// in blocks; anchors that may read what a residual adds (as many columns as sums).
constexpr std::string_view kAnchors[] = {
    "graph { input x: f32[37,83]; const w: f32[83,83] = seeded(0.1, 1); y = matmul(x, w); output y }",
    "graph { input x: f32[21,70]; const w: f32[70,70] = seeded(0.1, 1); const b: f32[70] = seeded(0.5, 2); "
    "y = gemm(x, w, b) {transB=1}; output y }",
    "graph { input x: f32[3,17,40]; input z: f32[3,40,40]; y = matmul(x, z); output y }",
    "graph { input x: f32[2,35,7,6]; const w: f32[35,35,1,1] = seeded(0.2, 1); const b: f32[35] = seeded(0.5, 2); "
    "y = conv(x, w, b); output y }",
    "graph { input x: f32[1,24,9,11]; const w: f32[24,24,3,3] = seeded(0.1, 1); y = conv(x, w) {pads=[1,1,1,1]}; "
    "output y }",
    "graph { input x: f32[2,6,7,9]; const w: f32[6,6,3,3] = seeded(0.2, 1); y = conv(x, w) {pads=[1,1,1,1]}; output y "
    "}",
    "graph { input x: f32[2,24,9,8]; const w: f32[24,1,3,3] = seeded(0.3, 1); y = conv(x, w) {pads=[1,1,1,1], "
    "group=24}; output y }",
    "graph { input x: f32[1,3,17,19]; const w: f32[20,3,3,3] = seeded(0.2, 1); const b: f32[20] = seeded(0.5, 2); "
    "y = conv(x, w, b) {pads=[1,1,1,1], strides=[2,2]}; output y }",
    "graph { input x: f32[1,12,5,6]; const w: f32[12,20,2,2] = seeded(0.3, 1); const b: f32[20] = seeded(0.5, 2); "
    "y = conv_transpose(x, w, b) {strides=[2,2]}; output y }",
    "graph { input x: f32[1,20,5,7]; const w: f32[20,20,3,3] = seeded(0.1, 1); y = conv_transpose(x, w) "
    "{pads=[1,1,1,1]}; output y }",
    "graph { input x: f32[2,5,37,41]; input z: f32[2,5,37,41]; y = sub(x, z); output y }",
    "graph { input x: f32[300,64]; const w: f32[64,150] = seeded(0.1, 1); y = matmul(x, w); output y }",
    "graph { input x: f32[7,1600]; const w: f32[1600,70] = seeded(0.025, 1); y = matmul(x, w); output y }",
    "graph { input x: f32[5,3100]; const w: f32[3100,50] = seeded(0.02, 1); const b: f32[50] = seeded(0.5, 2); "
    "y = gemm(x, w, b); output y }",
    "graph { input x: f32[5,3100]; input z: f32[50,3100]; y = gemm(x, z) {transB=1}; output y }",
    "graph { input x: f32[7,1600]; input z: f32[1600,70]; y = matmul(x, z); output y }",
    "graph { input x: f32[1,192,5,6]; const w: f32[40,192,3,3] = seeded(0.03, 1); y = conv(x, w) {pads=[1,1,1,1]}; "
    "output y }",
    "graph { input x: f32[1,352,4,5]; const w: f32[40,352,3,3] = seeded(0.02, 1); const b: f32[40] = seeded(0.5, 2); "
    "y = conv(x, w, b) {pads=[1,1,1,1]}; output y }",
    "graph { input x: f32[1,3100,4,5]; const w: f32[40,3100,1,1] = seeded(0.02, 1); y = conv(x, w); output y }",
    "graph { input x: f32[3,16,40,41]; const w: f32[33,16,1,1] = seeded(0.2, 1); y = conv(x, w); output y }",
    "graph { input x: f32[1,1600,3,4]; const w: f32[1600,24,2,2] = seeded(0.03, 1); y = conv_transpose(x, w) "
    "{strides=[2,2]}; output y }",
};

// Steps behind an anchor, one letter each; see append().
//   r relu, s sigmoid, t tanh, l leaky_relu, h hard_sigmoid, w hard_swish, i swish, g gelu, G gelu by tanh, c clip,
//   C clip from below, S x*sigmoid(x), W x*hard_sigmoid(x), + - a scalar is added, multiplied, b m one value a channel,
//   B M the same made at run time, a u an operand of full size, A U the last of these again, o the anchor's own input
constexpr std::string_view kShortChains[] = {"",  "r", "s", "t", "l", "h", "w", "i", "g", "G", "c", "C",
                                             "S", "W", "+", "-", "b", "m", "B", "M", "a", "u", "o"};
constexpr std::string_view kLongChains[] = {"ar",  "bar", "ra",  "rar", "mb",  "mbr", "-+",  "aa",   "aar",  "aA",
                                            "arA", "ua",  "au",  "uA",  "ga",  "Su",  "oro", "ro",   "ao",   "sua",
                                            "aw",  "wa",  "t-b", "ca",  "Wam", "lBa", "br",  "bgaC", "rbaM", "iao"};
constexpr std::string_view kMemoryChains[] = {"", "ar", "ga", "arA", "bSu", "o"};

// Constants become inputs marked constant, as in a region cut from a model.
std::vector<bool> lift_weights(ir::Graph* g) {
  std::vector<bool> constant(g->inputs.size(), false);
  for (ir::Value* v : g->constants()) {
    const bool weighs = std::any_of(v->users.begin(), v->users.end(), [&](const ir::Node* n) {
      for (size_t port = 0; port < n->inputs.size(); ++port)
        if (n->inputs[port] == v && ops::is_factor(*n, port)) return true;
      return false;
    });
    if ((v->constant->numel() <= kMaxInlineElements && !weighs) || v->constant->dtype() == DType::kString ||
        ops::says_sizes(*v))
      continue;
    g->replace_uses(v, g->add_input("weight", v->type));
    constant.push_back(true);
  }
  g->erase_dead();
  return constant;
}

// A chain being written behind a result.
struct Chain {
  ir::Graph& g;
  std::vector<bool>& constant;
  ir::Value* at;        // the last result
  const ir::Type type;  // of it, and of every operand of full size
  size_t channel;       // the axis of channels
  ir::Value* own;       // the anchor's input, if it has that type
  ir::Value* full = nullptr;

  ir::Value* input(const char* name, const ir::Type& t, bool weight) {
    constant.push_back(weight);
    return g.add_input(name, t);
  }
  ir::Value* scalar(float v) { return g.add_constant("k", Tensor::of_f32({}, {&v, 1})); }
  ir::Value* per_channel(bool weight) {
    Shape shape(type.rank() - channel, Dim(1));
    shape[0] = (*type.shape)[channel];
    return input("channel", {DType::kF32, shape}, weight);
  }
  void unary(const char* op, ir::Attrs attrs = {}) { at = g.add(op, {at}, std::move(attrs))->out(); }
  void binary(const char* op, ir::Value* with) { at = g.add(op, {at, with})->out(); }
  void gate(const char* op, ir::Attrs attrs = {}) {
    at = g.add("mul", {at, g.add(op, {at}, std::move(attrs))->out()})->out();
  }

  bool activation(char step) {
    switch (step) {
      case 'r': unary("relu"); return true;
      case 's': unary("sigmoid"); return true;
      case 't': unary("tanh"); return true;
      case 'l': return unary("leaky_relu", {{"alpha", 0.1}}), true;
      case 'h': return unary("hard_sigmoid", {{"alpha", 0.2}, {"beta", 0.4}}), true;
      case 'w': unary("hard_swish"); return true;
      case 'i': unary("swish"); return true;
      case 'g': unary("gelu"); return true;
      case 'G': return unary("gelu", {{"approximate", std::string("tanh")}}), true;
      case 'c': at = g.add("clip", {at, scalar(-0.5f), scalar(0.75f)})->out(); return true;
      case 'C': at = g.add("clip", {at, scalar(-0.25f)})->out(); return true;
      case 'S': gate("sigmoid"); return true;
      case 'W': return gate("hard_sigmoid", {{"alpha", 1.0 / 6}, {"beta", 0.5}}), true;
      default: return false;
    }
  }
  // False: there is no such step here.
  bool append(char step) {
    if (activation(step)) return true;
    const bool again = step == 'A' || step == 'U';
    if ((step == 'o' && !own) || (again && !full)) return false;
    if (step == 'a' || step == 'u') full = input("residual", type, false);
    switch (step) {
      case '+': binary("add", scalar(0.375f)); return true;
      case '-': binary("mul", scalar(-1.25f)); return true;
      case 'b':
      case 'B': binary("add", per_channel(step == 'b')); return true;
      case 'm':
      case 'M': binary("mul", per_channel(step == 'm')); return true;
      case 'a':
      case 'A': binary("add", full); return true;
      case 'u':
      case 'U': binary("mul", full); return true;
      default: binary("add", own); return true;
    }
  }
};

std::optional<SampleProblem> parsed(std::string_view text) {
  auto g = ir::parse_graph(text);
  if (!g.ok() || !g->sort().ok() || !ops::infer_graph(*g).ok()) return std::nullopt;
  std::vector<bool> constant = lift_weights(&*g);
  return SampleProblem{std::move(*g), std::move(constant)};
}

// With concrete dims; none where it is no small problem of numbers.
std::optional<SampleProblem> bound(const SampleProblem& p) {
  static constexpr int64_t kSizes[] = {3, 5, 2, 7};  // small, and no two the same
  DimBinding binding;
  std::set<std::string> symbols;
  for (const ir::Value* v : p.region.inputs)
    if (v->type.shape)
      for (const Dim& d : *v->type.shape) d.collect_symbols(symbols);
  for (const std::string& s : symbols) binding.emplace(s, kSizes[binding.size() % std::size(kSizes)]);
  auto region = exec::bind_region(p.region, binding);
  if (!region.ok() || region->nodes.empty()) return std::nullopt;
  double flops = 0;
  for (const ir::Node* n : region->nodes) flops += ops::cost_of(*n).flops;
  for (const auto* list : {&region->inputs, &region->outputs})
    for (const ir::Value* v : *list)
      if (v->type.dtype == DType::kString) return std::nullopt;
  for (const ir::Value* v : region->outputs)
    if (!v->producer) return std::nullopt;
  if (flops > kMaxFlops) return std::nullopt;
  return SampleProblem{problem::canonical(*region), p.constant};
}

// The problem with a chain behind its only result.
std::optional<SampleProblem> with_chain(const SampleProblem& p, std::string_view chain) {
  if (chain.empty()) return bound(p);
  if (p.region.outputs.size() != 1) return std::nullopt;
  SampleProblem q{p.region.clone(), p.constant};
  ir::Graph& g = q.region;
  ir::Value* last = g.outputs[0];
  if (last->type.dtype != DType::kF32 || !last->producer || last->type.rank() == 0) return std::nullopt;
  const bool images = std::any_of(g.nodes.begin(), g.nodes.end(),
                                  [](const ir::Node* n) { return ops::is(*n, &ops::OpDef::channels_second); });
  Chain c{g, q.constant, last, last->type, images ? 1 : last->type.rank() - 1, nullptr};
  if (!g.inputs.empty() && g.inputs[0]->type == last->type && !q.constant[0]) c.own = g.inputs[0];
  const std::string name = g.output_names[0];
  g.outputs.clear();
  g.output_names.clear();
  for (char step : chain)
    if (!c.append(step)) return std::nullopt;
  g.mark_output(c.at, name);
  if (!ops::infer_graph(g).ok()) return std::nullopt;
  return bound(q);
}

void add(std::optional<SampleProblem> p, std::vector<SampleProblem>* all) {
  if (p) all->push_back(std::move(*p));
}

// An anchor with all chains, or those for its size.
void add_chains(std::string_view text, std::vector<SampleProblem>* all) {
  const std::optional<SampleProblem> p = parsed(text);
  PERI_CHECK(p, "a sample that does not parse");
  double flops = 0;
  for (const ir::Node* n : p->region.nodes) flops += ops::cost_of(*n).flops;
  if (flops > kMaxAllChainsFlops) {
    for (std::string_view chain : kMemoryChains) add(with_chain(*p, chain), all);
    return;
  }
  for (std::string_view chain : kShortChains) add(with_chain(*p, chain), all);
  for (std::string_view chain : kLongChains) add(with_chain(*p, chain), all);
}

// Samples of ops: alone, and what is no element-wise step with an activation, and with a residual and an activation;
// those that take epilogues with a few chains more, others for each sample.
void add_op(const ops::OpDef& op, std::vector<SampleProblem>* all) {
  const bool anchor = op.anchor && op.fan_in;
  size_t turn = 0;
  for (std::string_view text : op.samples) {
    const std::optional<SampleProblem> p = parsed(text);
    if (!p) continue;
    std::vector<std::string_view> chains = {""};
    if (p->region.nodes.size() == 1 && !op.elementwise) chains.insert(chains.end(), {"r", "ar"});
    for (size_t k = 0; anchor && k < 3; ++k) chains.push_back(kLongChains[turn++ * 7 % std::size(kLongChains)]);
    for (std::string_view chain : chains) {
      std::optional<SampleProblem> q = with_chain(*p, chain);
      if (!q) continue;
      std::vector<bool> more = problem::weights_by_role(q->region);
      for (size_t k = 0; k < more.size(); ++k) more[k] = more[k] || q->constant[k];
      if (more != q->constant) all->push_back({q->region.clone(), more});
      all->push_back(std::move(*q));
    }
  }
}
}  // namespace

std::vector<SampleProblem>& common_problems() {
  static std::vector<SampleProblem> all = [] {
    std::vector<SampleProblem> made;
    for (const ops::OpDef* op : ops::all()) add_op(*op, &made);
    for (std::string_view text : kAnchors) add_chains(text, &made);
    return made;
  }();
  return all;
}

std::vector<SampleProblem> own_problems(const kernels::Kernel& kernel) {
  std::vector<SampleProblem> all;
  for (std::string_view text : kernel.samples) {
    const std::optional<SampleProblem> p = parsed(text);
    PERI_CHECK(p, "a kernel's sample that does not parse");
    const size_t before = all.size();
    if (ops::changes_layout(*p->region.nodes[0]))
      add(bound(*p), &all);
    else
      add_chains(text, &all);
    for (size_t k = before; k < all.size(); ++k)
      all[k].from = k == before ? SampleProblem::From::kStated : SampleProblem::From::kChain;
  }
  return all;
}

namespace {
// Whether a value is read by what takes other types beside it only.
bool stays_wide(const ir::Value* v) {
  return !v->users.empty() && std::all_of(v->users.begin(), v->users.end(), [&](const ir::Node* n) {
    const ops::OpDef* op = ops::find(n->op);
    const size_t port = static_cast<size_t>(std::ranges::find(n->inputs, v) - n->inputs.begin());
    return op && port < n->inputs.size() && port < op->inputs.size() && op->inputs[port].stays_wide;
  });
}
Tensor converted(const Tensor& t, DType type) {
  auto out = Tensor::zeros(type, t.dims());
  PERI_CHECK(out.ok(), "a small constant");
  for (int64_t k = 0; k < t.numel(); ++k) out->set_f64(k, t.f64(k));
  return std::move(*out);
}
}  // namespace

std::optional<SampleProblem> in_type(const SampleProblem& problem, DType type) {
  SampleProblem out{problem.region.clone(), problem.constant};
  ir::Graph& g = out.region;
  int changed = 0;
  for (ir::Value* v : g.inputs)
    if (v->type.dtype == DType::kF32 && !stays_wide(v)) {
      v->type.dtype = type;
      ++changed;
    }
  for (ir::Value* v : g.constants())
    if (v->type.dtype == DType::kF32 && !stays_wide(v)) {
      g.replace_uses(v, g.add_constant(v->name, converted(*v->constant, type)));
      ++changed;
    }
  g.erase_dead();
  if (changed == 0 || !ops::infer_graph(g).ok()) return std::nullopt;
  return out;
}

Coverage coverage(const ops::OpDef& op, std::string_view executor, const device::Target& target) {
  Coverage out;
  const auto count = [&](const SampleProblem& p) {
    ++out.all;
    for (const kernels::Kernel* k : kernels::kernels()) {
      if (k->executor != executor || !k->offer({&p.region, p.constant}, target).ok()) continue;
      ++out.taken;
      return;
    }
  };
  for (std::string_view text : op.samples) {
    std::optional<SampleProblem> p = parsed(text);
    if (p) p = bound(*p);
    if (!p) continue;
    count(*p);
    for (const DType type : {DType::kF16, DType::kBF16})
      if (const std::optional<SampleProblem> q = in_type(*p, type)) count(*q);
  }
  return out;
}

}  // namespace peri::tune
