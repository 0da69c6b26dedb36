// Kernel gemm_siblings_f32: float32 products of one left side with several weights, each with its epilogue, as one list
// of tasks: queries, keys and values of attention, gates and their values. The weights are packed once, consecutively;
// each product gives the same bits as alone.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/gemm/product.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {

extern const Entry gemm_siblings_f32_entry;

namespace {

// One product of the region as a problem of its own, with all of the region's arguments.
ir::Graph alone(const ir::Graph& region, size_t output) {
  ir::Graph g = region.clone();
  g.outputs = {g.outputs[output]};
  g.output_names = {g.output_names[output]};
  g.erase_dead();
  return g;
}

Result<std::vector<Product>> read(const Problem& p) {
  constexpr size_t kMax = 8;
  const ir::Graph& g = *p.graph;
  if (g.outputs.size() < 2 || g.outputs.size() > kMax) return refused("not several products");
  std::vector<Product> out;
  size_t nodes = 0;
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    const ir::Graph one = alone(g, k);
    if (one.inputs.size() != g.inputs.size()) return refused("not products of arguments");
    PERI_ASSIGN(Product s, read_product({&one, p.constant}));
    if (s.shape.b_form != cpu::BForm::kPacked) return refused("a right side that is not a weight");
    if (!out.empty() && (s.a != out[0].a || s.shape.m != out[0].shape.m || s.shape.k != out[0].shape.k))
      return refused("products of different left sides");
    nodes += one.nodes.size();
    out.push_back(std::move(s));
  }
  if (nodes != g.nodes.size()) return refused("products that share more than their left side");
  return out;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(target));
  Offer o;
  o.inputs.resize(p.graph->inputs.size());
  o.outputs.resize(p.graph->outputs.size());
  o.requires_isa = cpu::isa_name(isa);
  return std::vector<Offer>{std::move(o)};
}

struct Sibling {
  Product product;
  cpu::GemmPlan plan;
  int64_t first_task = 0, packed_at = 0;
};

// Pieces are the tasks of each single product; small ones are combined into a task, since waking a thread for them
// does not pay off.
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
constexpr double kTaskFlops = 1e6;
int64_t pieces_of(const std::vector<Sibling>& siblings) {
  return siblings.back().first_task + siblings.back().plan.tasks;
}
int64_t pieces_of_a_task(const std::vector<Sibling>& siblings) {
  double flops = 0;
  for (const Sibling& s : siblings)
    flops += 2.0 * static_cast<double>(s.product.shape.m * s.product.shape.k) * static_cast<double>(s.product.shape.n);
  const int64_t pieces = pieces_of(siblings);
  return std::clamp<int64_t>(
      static_cast<int64_t>(std::ceil(kTaskFlops * static_cast<double>(pieces) / std::max(1.0, flops))), 1, pieces);
}
Needs needs_from_plan(const std::vector<Sibling>& siblings) {
  const int64_t each = pieces_of_a_task(siblings);
  return needs_of_tasks((pieces_of(siblings) + each - 1) / each);
}

class SiblingsInstance final : public Instance {
 public:
  SiblingsInstance(std::vector<Sibling> siblings, Packed packed, std::vector<Tensor> constants)
      : Instance(needs_from_plan(siblings)),
        siblings_(std::move(siblings)),
        packed_(std::move(packed)),
        constants_(std::move(constants)) {}
  void run_task(int, int64_t task, const Args& args) const override {
    for (int64_t piece = task * each_; piece < std::min(pieces(), (task + 1) * each_); ++piece) run_piece(piece, args);
  }

 private:
  int64_t pieces() const { return pieces_of(siblings_); }
  void run_piece(int64_t task, const Args& args) const {
    size_t k = siblings_.size() - 1;
    while (siblings_[k].first_task > task) --k;
    const Sibling& s = siblings_[k];
    const cpu::GemmArgs a = s.product.args(args, packed_floats(packed_) + s.packed_at, constants_, k);
    cpu::run_task(s.plan, a, task - s.first_task, nullptr);
  }

  std::vector<Sibling> siblings_;
  Packed packed_;
  std::vector<Tensor> constants_;
  int64_t each_ = pieces_of_a_task(siblings_);
};

struct Planned {
  std::vector<Sibling> plan;
  int64_t floats = 0;  // of their packed weights
};
Result<Planned> planned(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const int64_t rows, setting(gemm_siblings_f32_entry.kernel, config, "rows"));
  PERI_ASSIGN(const int64_t panels, setting(gemm_siblings_f32_entry.kernel, config, "panels"));
  for (const auto* list : {&p.graph->inputs, &p.graph->outputs})
    for (const ir::Value* v : *list)
      if (!v->type.layout.row_major()) return invalid("takes row-major tensors only");
  PERI_ASSIGN(std::vector<Product> products, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(target));
  Planned out;
  int64_t tasks = 0;
  for (Product& product : products) {
    Sibling s = {std::move(product), {}, tasks, out.floats};
    s.plan = cpu::plan_gemm(s.product.shape, isa, {rows, panels}, target.threads);
    tasks += s.plan.tasks;
    out.floats += (cpu::packed_b_floats(s.product.shape.k, s.product.shape.n, isa) + 15) / 16 * 16;
    out.plan.push_back(std::move(s));
  }
  return out;
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Planned made, planned(p, config, target));
  return needs_from_plan(made.plan);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Planned made, planned(p, config, *c.target));
  std::vector<Sibling>& siblings = made.plan;
  const int64_t floats = made.floats;
  const auto isa = siblings.front().plan.isa;
  PERI_TRY(pack_once(c, "siblings", floats, [&](float* to) {
    std::fill_n(to, floats, 0.0f);
    for (const Sibling& s : siblings) {
      const Product& x = s.product;
      cpu::pack_b(c.constants[static_cast<size_t>(x.b)].as<float>().data(), x.b_transposed ? x.shape.k : x.shape.n,
                  x.b_transposed, x.shape.k, x.shape.n, isa, to + s.packed_at);
    }
  }));
  std::vector<int> packed;
  for (const Sibling& s : siblings) packed.push_back(s.product.b);
  std::vector<Tensor> constants = c.constants.all_but(packed);
  return std::unique_ptr<Instance>(
      std::make_unique<SiblingsInstance>(std::move(siblings), *c.packed, std::move(constants)));
}
}  // namespace

const Entry gemm_siblings_f32_entry{{
    .name = "gemm_siblings_f32",
    .version = 1,
    .provider = "peri",
    .takes = "float32 matrix products of one left side with several weights, each with its epilogue",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    .samples =
        {"graph { input x: f32[5,24]; const a: f32[24,40] = seeded(0.2, 1); const b: f32[24,7] = seeded(0.2, 2); q = "
         "matmul(x, a); k = matmul(x, b); output q; output k }",
         "graph { input x: f32[3,2,24]; input r: f32[3,2,48]; const a: f32[24,48] = seeded(0.2, 1); const p: f32[48] = "
         "seeded(0.5, 2); const b: f32[24,48] = seeded(0.2, 3); const c: f32[24,16] = seeded(0.2, 4); s = matmul(x, "
         "a); "
         "q = add(s, p); t = matmul(x, b); k = add(t, r); v = matmul(x, c); output q; output k; output v }",
         "graph { input x: f32[1,8]; const a: f32[16,8] = seeded(0.3, 1); const b: f32[33,8] = seeded(0.3, 2); q = "
         "gemm(x, a) {transB=1}; g = gemm(x, b) {transB=1}; k = relu(g); output q; output k }",
         "graph { input x: f32[131,17]; const a: f32[17,20] = seeded(0.2, 1); const b: f32[17,20] = seeded(0.2, 2); u "
         "= "
         "matmul(x, a); g = gelu(u); v = matmul(x, b); output g; output v }"},
    .tunables = {{"rows", "rows of a product that a piece of a task computes", {64, 32, 16}},
                 {"panels", "panels of columns that a piece of a task computes", {1, 2, 4, 8}}},
    .takes_constants = true,
}};

}  // namespace peri::kernels
