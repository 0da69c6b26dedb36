// Kernel softmax_f32: softmax and log-softmax along any axis, row-major.
#include "kernels/cpu/rows/rows.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
extern const Entry softmax_f32_entry;

namespace {
namespace rows = cpu::rows;

Result<rows::SoftmaxShape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "softmax" && n.op != "log_softmax") return refused("not a softmax");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  if (d.empty()) return refused("a scalar");
  int64_t axis = n.i("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(d.size());
  rows::SoftmaxShape s;
  s.log = n.op == "log_softmax";
  for (int64_t k = 0; k < static_cast<int64_t>(d.size()); ++k)
    (k < axis ? s.outer : k == axis ? s.axis : s.inner) *= d[static_cast<size_t>(k)];
  if (s.outer * s.axis * s.inner == 0) return refused("an empty tensor");
  return s;
}

// The input whose memory the result may take; -1: none.
int taken(const Problem& p) {
  const int x = input_index(*p.graph, p.anchor().in(0));
  return x >= 0 && !p.constant[static_cast<size_t>(x)] ? x : -1;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  Offer o = row_major_offer(p, target);
  o.in_place = {taken(p)};
  return std::vector<Offer>{std::move(o)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(const int64_t rows, setting(softmax_f32_entry.kernel, config, "rows"));
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const rows::SoftmaxShape shape, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  PERI_ASSIGN(const rows::SoftmaxPlan plan, rows::make_plan(shape, isa, rows));
  return TaskInstance::make(
      rows::task_count(plan), 0,
      [plan, x = Source::of(p, p.anchor().in(0), c.constants)](int64_t task, const Args& args) {
        rows::run_task(plan, {x.f32(args), nullptr, static_cast<float*>(args.out[0])}, task);
      },
      taken(p));
}
}  // namespace

const Entry softmax_f32_entry{{
    .name = "softmax_f32",
    .version = 1,
    .provider = "peri",
    .takes = "softmax and log-softmax of f32 along any axis",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .tunables = {{"rows", "rows that a task does", {1, 4, 16, 64}}},
    .takes_constants = true,
}};

}  // namespace peri::kernels
