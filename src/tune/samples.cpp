// Which problems samples make, and the run of them.
#include "tune/samples.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "exec/core/region_payload.hpp"
#include "tune/trial.hpp"

namespace peri::tune {

namespace {
constexpr uint64_t kSeed = 7;
constexpr double kMostFlops = 1e7;  // a sample beyond it is no small one

constexpr int64_t kInlineElements = 16;  // smaller constants stay inside a region

enum class Epilogue { kNone, kRelu, kResidual };

struct Problem {
  ir::Graph region;
  std::vector<bool> constant;
};

// Constants become inputs marked constant, as in a region cut from a model.
std::vector<bool> lift_weights(ir::Graph* g) {
  std::vector<bool> constant(g->inputs.size(), false);
  for (ir::Value* v : g->constants()) {
    if (v->constant->numel() <= kInlineElements || v->constant->dtype() == DType::kString) continue;
    g->replace_uses(v, g->add_input("weight", v->type));
    constant.push_back(true);
  }
  g->erase_dead();
  return constant;
}

// The sample's op with the epilogue as a region with concrete dims; none where it does not make one.
std::optional<Problem> problem_of(std::string_view text, Epilogue epilogue) {
  auto g = ir::parse_graph(text);
  if (!g.ok() || !g->sort().ok() || !ops::infer_graph(*g).ok()) return std::nullopt;
  std::vector<bool> constant = lift_weights(&*g);
  static constexpr int64_t kSizes[] = {3, 5, 2, 7};
  DimBinding binding;
  std::set<std::string> symbols;
  for (const ir::Value* v : g->inputs)
    if (v->type.shape)
      for (const Dim& d : *v->type.shape) d.collect_symbols(symbols);
  for (const std::string& s : symbols) binding.emplace(s, kSizes[binding.size() % std::size(kSizes)]);
  if (epilogue != Epilogue::kNone) {
    if (g->nodes.size() != 1 || g->outputs.size() != 1 || ops::find(g->nodes[0]->op)->elementwise) return std::nullopt;
    ir::Value* last = g->outputs[0];
    if (last->type.dtype != DType::kF32 || last->producer != g->nodes[0]) return std::nullopt;
    const std::string name = g->output_names[0];
    g->outputs.clear();
    g->output_names.clear();
    if (epilogue == Epilogue::kResidual) {
      last = g->add("add", {last, g->add_input("residual", last->type)})->out();
      constant.push_back(false);
    }
    g->mark_output(g->add("relu", {last})->out(), name);
    if (!ops::infer_graph(*g).ok()) return std::nullopt;
  }
  auto bound = exec::bind_region(*g, binding);
  if (!bound.ok() || bound->nodes.empty()) return std::nullopt;
  double flops = 0;
  for (const ir::Node* n : bound->nodes) flops += ops::cost_of(*n).flops;
  for (const auto* list : {&bound->inputs, &bound->outputs})
    for (const ir::Value* v : *list)
      if (v->type.dtype == DType::kString) return std::nullopt;
  for (const ir::Value* v : bound->outputs)
    if (!v->producer) return std::nullopt;
  if (flops > kMostFlops) return std::nullopt;
  return Problem{std::move(*bound), std::move(constant)};
}

// All problems that samples make; the same for every kernel, so they are made once in a process.
const std::vector<Problem>& sample_problems() {
  static const std::vector<Problem> kAll = [] {
    std::vector<Problem> all;
    for (const ops::OpDef* op : ops::all())
      for (std::string_view text : op->samples)
        for (Epilogue e : {Epilogue::kNone, Epilogue::kRelu, Epilogue::kResidual}) {
          std::optional<Problem> p = problem_of(text, e);
          if (!p) continue;
          std::vector<bool> more = likely_weights(p->region);
          for (size_t k = 0; k < more.size(); ++k) more[k] = more[k] || p->constant[k];
          if (more != p->constant) all.push_back({p->region.clone(), more});
          all.push_back(std::move(*p));
        }
    return all;
  }();
  return kAll;
}

// The error of the first offer of the kernel for this problem that is wrong; counts the others in *right.
Status check_problem(const kernels::Kernel& kernel, const kernels::Machine& machine, const Problem& p, ThreadPool* pool,
                     int64_t* right) {
  auto offers = kernel.offer({&p.region, p.constant}, machine);
  if (!offers.ok() || offers->empty()) return Ok{};
  auto arguments = make_arguments(p.region, kSeed);
  if (!arguments.ok()) return Ok{};
  auto expected = make_expected(p.region, *arguments, 1, kSeed);
  if (!expected.ok()) return Ok{};  // the op's reference refuses such data
  for (kernels::Offer& o : *offers) {
    if (!machine.has(o.requires_isa)) continue;
    o.inputs.resize(p.region.inputs.size());
    o.outputs.resize(p.region.outputs.size());
    const Candidate c{&kernel, std::move(o), -1, -1, "", ""};
    auto trial = Trial::create(p.region, p.constant, c, *arguments, machine, pool);
    if (!trial.ok()) continue;  // a late refusal
    auto error = (*trial)->verify(*expected);
    if (!error.ok()) return Error(error.error().kind, "{" + c.offer.config + "} " + error.error().text());
    ++*right;
  }
  return Ok{};
}
}  // namespace

SampleVerdict check_samples(const kernels::Kernel& kernel, const kernels::Machine& machine, ThreadPool* pool) {
  // A process that builds many engines asks once.
  static std::mutex guard;
  static std::map<const kernels::Kernel*, SampleVerdict> known;
  const std::lock_guard<std::mutex> lock(guard);
  if (const auto it = known.find(&kernel); it != known.end()) return it->second;
  SampleVerdict v;
  for (const Problem& p : sample_problems()) {
    const Status right = check_problem(kernel, machine, p, pool, &v.samples);
    if (right.ok()) continue;
    v.failed = "wrong on a sample: " + right.error().text() + " in " + ir::print(p.region, {16, false});
    v.lasting = right.error().kind != ErrorKind::kMemory;
    break;
  }
  if (v.lasting) known.emplace(&kernel, v);
  return v;
}

std::vector<bool> likely_weights(const ir::Graph& region) {
  std::vector<bool> out;
  for (const ir::Value* v : region.inputs) {
    bool weight = !v->users.empty();
    for (const ir::Node* n : v->users) {
      const bool anchor = n->op == "conv" || n->op == "conv_transpose" || n->op == "gemm" || n->op == "matmul" ||
                          n->op == "layer_normalization";
      weight = weight && anchor && n->in(0) != v;
    }
    out.push_back(weight);
  }
  return out;
}

}  // namespace peri::tune
