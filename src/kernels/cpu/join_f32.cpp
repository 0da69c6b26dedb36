// Kernel join_f32: sum, mean, maximum or minimum over adjacent axes, and global pooling in row-major or NHWC.
#include <algorithm>

#include "kernels/cpu/rows/rows.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
namespace rows = cpu::rows;

Result<rows::Join> kind_of(std::string_view op) {
  if (op == "reduce_sum") return rows::Join::kSum;
  if (op == "reduce_mean" || op == "global_average_pool") return rows::Join::kMean;
  if (op == "reduce_max" || op == "global_max_pool") return rows::Join::kMax;
  if (op == "reduce_min") return rows::Join::kMin;
  return refused("not a reduction it knows");
}

// Axes joined, in the physical order of `layout`.
Result<rows::JoinShape> read(const Problem& p, const ir::Layout& layout) {
  const ir::Node& n = p.anchor();
  rows::JoinShape s;
  PERI_ASSIGN(s.join, kind_of(n.op));
  if (p.graph->nodes.size() > 1 && p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  std::vector<bool> joined(d.size(), false);
  if (n.op.starts_with("global")) {
    for (size_t k = 2; k < d.size(); ++k) joined[k] = true;
  } else {
    ops::InferContext context{n, {}, {}, nullptr};
    if (!n.in(1)) {
      if (n.i("noop_with_empty_axes")) return refused("reduces nothing");
      joined.assign(d.size(), true);
    } else {
      PERI_ASSIGN(const std::vector<int64_t> axes, context.constants(1, "axes"));
      if (axes.empty()) return refused("empty axes");
      for (int64_t a : axes) joined[static_cast<size_t>(a < 0 ? a + static_cast<int64_t>(d.size()) : a)] = true;
    }
  }
  int phase = 0;
  for (size_t k = 0; k < d.size(); ++k) {
    const size_t axis = layout.order.empty() ? k : layout.order[k];
    if (joined[axis] && phase == 2) return refused("axes that are not neighbours");
    if (joined[axis])
      phase = 1;
    else if (phase == 1)
      phase = 2;
    (phase == 0 ? s.outer : phase == 1 ? s.axis : s.inner) *= d[axis];
  }
  if (s.outer * s.axis * s.inner == 0) return refused("an empty tensor");
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cpu::best_isa(target));
  if (!p.anchor().in(0)) return refused("'%s' has no data input", p.anchor().op.c_str());
  const auto x = data_argument(p);
  std::vector<Offer> out;
  const bool four = p.anchor().in(0)->type.rank() == 4;
  auto plain = read(p, {});
  if (plain.ok()) out.push_back(row_major_offer(p, target));
  if (four && x && read(p, ir::nhwc()).ok()) {
    Offer o = row_major_offer(p, target);
    o.inputs[*x] = ir::nhwc();
    const std::vector<int64_t> y = dims_of(*p.graph->outputs[0]);
    const bool flat = y.size() == 4 && y[2] == 1 && y[3] == 1;  // then NHWC and row-major are the same memory
    if (y.size() == 4 && !flat) o.outputs[0] = ir::nhwc();
    if (y.size() == 4 || y.size() == 2) out.push_back(o);
    if (flat) {
      o.outputs[0] = ir::nhwc();
      out.push_back(std::move(o));
    }
  }
  if (out.empty()) return std::move(plain).error();
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_ASSIGN(const rows::JoinShape shape, read(p, p.anchor().in(0)->type.layout));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  PERI_ASSIGN(const rows::JoinPlan plan, rows::make_plan(shape, isa));
  return TaskInstance::make(rows::task_count(plan), 0,
                            [plan, x = Source::of(p, p.anchor().in(0), c.constants)](int64_t task, const Args& args) {
                              rows::run_task(plan, {x.f32(args), nullptr, static_cast<float*>(args.out[0])}, task);
                            });
}
}  // namespace

extern const Entry join_f32_entry;
const Entry join_f32_entry{{
    .name = "join_f32",
    .version = 1,
    .provider = "peri",
    .takes = "sums, means, maxima and minima of f32 over neighbouring axes, global pooling",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .takes_constants = true,
}};

}  // namespace peri::kernels
