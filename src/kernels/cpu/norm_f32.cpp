// Kernel norm_f32: LayerNorm and RMSNorm of f32 rows.
#include "kernels/cpu/rows/rows.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
extern const Entry norm_f32_entry;

namespace {
namespace rows = cpu::rows;

Result<rows::NormShape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "layer_normalization" && n.op != "rms_normalization") return refused("not a row normalisation");
  if (p.graph->nodes.size() != 1 || p.graph->outputs.size() != 1 || p.graph->outputs[0] != n.out())
    return refused("takes no epilogue and gives no statistics");
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  int64_t axis = n.i("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(d.size());
  rows::NormShape s;
  s.norm = n.op == "layer_normalization" ? rows::Norm::kLayer : rows::Norm::kRms;
  s.epsilon = static_cast<float>(n.f("epsilon", 1e-5));
  for (int64_t k = 0; k < static_cast<int64_t>(d.size()); ++k) (k < axis ? s.rows : s.n) *= d[static_cast<size_t>(k)];
  if (s.rows * s.n == 0) return refused("an empty tensor");
  for (size_t k = 1; k < n.inputs.size(); ++k) {
    if (!n.inputs[k]) continue;
    int64_t numel = 1;
    for (int64_t v : dims_of(*n.inputs[k])) numel *= v;
    if (numel != s.n) return refused("scale or bias is not one value an element");
  }
  return s;
}

// The input whose memory the result may take; -1: none. Scale and bias are read after the first row is written.
int taken(const Problem& p) {
  const int x = input_index(*p.graph, p.anchor().in(0));
  return x >= 0 && !p.constant[static_cast<size_t>(x)] && p.anchor().in(0)->users.size() == 1 ? x : -1;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  Offer o = row_major_offer(p, target);
  o.in_place = {taken(p)};
  return std::vector<Offer>{std::move(o)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(const int64_t rows, setting(norm_f32_entry.kernel, config, "rows"));
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const rows::NormShape shape, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  PERI_ASSIGN(const rows::NormPlan plan, rows::make_plan(shape, isa, rows));
  const ir::Node& n = p.anchor();
  return TaskInstance::make(
      rows::task_count(plan), 0,
      [plan, x = Source::of(p, n.in(0), c.constants), scale = Source::of(p, n.in(1), c.constants),
       bias = Source::of(p, n.in(2), c.constants)](int64_t task, const Args& args) {
        rows::NormArgs a = {};
        a.x = x.f32(args);
        a.scale = scale.f32(args);
        a.bias = bias.f32(args);
        a.y = static_cast<float*>(args.out[0]);
        rows::run_task(plan, a, task);
      },
      taken(p));
}
}  // namespace

const Entry norm_f32_entry{{
    .name = "norm_f32",
    .version = 1,
    .provider = "peri",
    .takes = "LayerNorm and RMSNorm of f32 over trailing axes",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .tunables = {{"rows", "rows that a task does", {1, 4, 16, 64}}},
    .takes_constants = true,
}};

}  // namespace peri::kernels
