// Kernel pool_f32: max and average pooling over one to three dimensions, row-major, and over two in NHWC.
#include <algorithm>

#include "kernels/cpu/pool/pool.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "ops/shape/window.hpp"

namespace peri::kernels {
namespace {
namespace pool = cpu::pool;

Result<pool::Shape> read(const Problem& p, bool nhwc) {
  const ir::Node& n = p.anchor();
  if (n.op != "max_pool" && n.op != "average_pool") return refused("not a pooling it knows");
  if (p.graph->nodes.size() != 1 || p.graph->outputs.size() != 1 || p.graph->outputs[0] != n.out())
    return refused("takes no epilogue and gives no indices");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  if (x.size() < 3 || x.size() > 5) return refused("takes one to three spatial dimensions");
  if (nhwc && x.size() != 4) return refused("takes two spatial dimensions in NHWC");
  const ops::Window w = ops::window_of(n);
  pool::Shape s;
  s.kind = n.op == "max_pool" ? pool::Kind::kMax : pool::Kind::kAverage;
  s.layout = nhwc ? pool::Layout::kNhwc : pool::Layout::kNchw;
  s.count_include_pad = n.i("count_include_pad") != 0;
  s.batch = x[0];
  s.channels = x[1];
  const size_t axes = x.size() - 2;
  pool::Extent* const extents[] = {&s.w, &s.h, &s.d};
  for (size_t k = 0; k < axes; ++k)
    *extents[axes - 1 - k] = {x[k + 2],      y[k + 2],       w.kernel[k], w.stride[k],
                              w.dilation[k], w.pad_begin[k], w.pad_end[k]};
  if (std::count(x.begin(), x.end(), 0) + std::count(y.begin(), y.end(), 0)) return refused("an empty tensor");
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const auto isa, cpu::best_isa(target));
  std::vector<Offer> out;
  const auto x = data_argument(p);
  for (bool nhwc : {true, false}) {
    if (nhwc && (!x || p.anchor().in(0)->type.rank() != 4)) continue;
    PERI_ASSIGN(const pool::Shape shape, read(p, nhwc));
    PERI_TRY(pool::make_plan(shape, isa));
    Offer o = row_major_offer(p, target);
    if (nhwc) o.inputs[*x] = o.outputs[0] = ir::nhwc();
    out.push_back(std::move(o));
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  const ir::Layout &in = p.anchor().in(0)->type.layout, &out = p.graph->outputs[0]->type.layout;
  if (!(in == out) || (!in.row_major() && !(in == ir::nhwc()))) return invalid("layouts it does not offer");
  PERI_ASSIGN(const pool::Shape shape, read(p, !in.row_major()));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  PERI_ASSIGN(const pool::Plan plan, pool::make_plan(shape, isa));
  return TaskInstance::make(pool::task_count(plan), static_cast<size_t>(pool::scratch_bytes(plan)),
                            [plan, x = Source::of(p, p.anchor().in(0), c.constants)](int64_t task, const Args& args) {
                              pool::run_task(plan, {x.f32(args), static_cast<float*>(args.out[0])}, task, args.scratch);
                            });
}
}  // namespace

extern const Entry pool_f32_entry;
const Entry pool_f32_entry{{
    .name = "pool_f32",
    .version = 2,
    .provider = "peri",
    .takes = "max and average pooling of f32 in one to three dimensions, row-major, in two in NHWC",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .takes_constants = true,
}};

}  // namespace peri::kernels
