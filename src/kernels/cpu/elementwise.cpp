// Kernel elementwise: a fused region of element-wise ops as block code over L1-sized tiles, row-major or NHWC.
#include <algorithm>

#include "kernels/block/translate.hpp"
#include "kernels/cpu/block/plan.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels {
namespace {

std::vector<ir::Layout> layouts_for(const Problem& p, const ir::Layout& layout) {
  std::vector<ir::Layout> out(p.graph->inputs.size());
  const size_t rank = p.graph->outputs[0]->type.rank();
  for (size_t k = 0; k < out.size(); ++k)
    if (!p.constant[k] && p.graph->inputs[k]->type.rank() == rank) out[k] = layout;
  return out;
}

// Whether the only result may reuse the memory of input k: both are accessed at the same position of a tile. Engines
// share only memory of floats.
bool takes(const Problem& p, size_t k) {
  const ir::Graph& g = *p.graph;
  return g.outputs.size() == 1 && is_float(g.outputs[0]->type.dtype) && !p.constant[k] &&
         g.inputs[k]->type.dtype == g.outputs[0]->type.dtype && g.inputs[k]->type.shape == g.outputs[0]->type.shape;
}

// Bytes computed by the region are stored as bytes: as numbers they would take four times the memory, and are converted
// where they are read.
Status check_results(const Problem& p) {
  for (const ir::Value* v : p.graph->outputs)
    if (v->producer && v->producer->op == "from_bytes" && v->producer->in(0)->producer)
      return refused("numbers of bytes that it makes leave the region");
  return Ok{};
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(check_results(p));
  PERI_ASSIGN(const block::Translated t, block::translate(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(target));
  std::vector<Offer> out;
  const std::vector<int64_t> dims = dims_of(*p.graph->outputs[0]);
  for (const ir::Layout& layout : {ir::Layout{}, ir::nhwc()}) {
    if (!layout.row_major() && dims.size() != 4) continue;
    ir::Graph g = p.graph->clone();
    Offer o;
    o.inputs = layouts_for(p, layout);
    for (size_t k = 0; k < g.inputs.size(); ++k) g.inputs[k]->type.layout = o.inputs[k];
    const Problem placed{&g, p.constant};
    PERI_ASSIGN(const block::Space space, block::space_of(placed, t, layout));
    PERI_TRY(cpu::block::make_plan(t.program, space, isa));
    o.outputs.assign(g.outputs.size(), layout);
    o.in_place.assign(g.outputs.size(), -1);
    for (size_t k = 0; k < g.inputs.size(); ++k)
      if (takes(p, k)) o.in_place[0] = static_cast<int>(k);
    o.requires_isa = cpu::isa_name(isa);
    out.push_back(std::move(o));
  }
  return out;
}

class BlockInstance final : public Instance {
 public:
  BlockInstance(block::Translated t, cpu::block::Plan plan, std::vector<Tensor> constants, std::vector<bool> taken)
      : Instance({static_cast<size_t>(cpu::block::workspace_bytes(plan)),
                  static_cast<size_t>(cpu::block::scratch_bytes(plan)),
                  {cpu::block::task_count(plan)},
                  {}}),
        t_(std::move(t)),
        plan_(std::move(plan)),
        constants_(std::move(constants)),
        taken_(std::move(taken)) {}
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && input < taken_.size() && taken_[input];
  }
  void run_task(int, int64_t task, const Args& args) const override {
    const void* in[block::kMaxArguments];
    for (size_t a = 0; a < t_.arguments.size(); ++a) {
      const int k = t_.arguments[a];
      in[a] = k < 0                                          ? t_.inlined[a].data()
              : constants_[static_cast<size_t>(k)].defined() ? constants_[static_cast<size_t>(k)].data()
                                                             : args.in[static_cast<size_t>(k)];
    }
    cpu::block::run_task(plan_, {in, args.out.data(), args.workspace}, task, args.scratch);
  }

 private:
  block::Translated t_;
  cpu::block::Plan plan_;
  std::vector<Tensor> constants_;
  std::vector<bool> taken_;  // per input: the result may take its memory
};

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_ASSIGN(block::Translated t, block::translate(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const ir::Layout& layout = p.graph->outputs[0]->type.layout;
  for (const ir::Value* v : p.graph->outputs)
    if (!(v->type.layout == layout)) return invalid("outputs in different layouts");
  PERI_ASSIGN(const block::Space space, block::space_of(p, t, layout));
  PERI_ASSIGN(cpu::block::Plan plan, cpu::block::make_plan(t.program, space, isa));
  std::vector<bool> taken;
  for (size_t k = 0; k < p.graph->inputs.size(); ++k) taken.push_back(takes(p, k));
  return std::unique_ptr<Instance>(
      std::make_unique<BlockInstance>(std::move(t), std::move(plan), c.constants.all_but({}), std::move(taken)));
}
}  // namespace

extern const Entry elementwise_entry;
const Entry elementwise_entry{{
    .name = "elementwise",
    .version = 1,
    .provider = "peri",
    .takes = "regions of element-wise ops on f32, f16, bf16, i32, i64 and bool, bytes by a scale, any broadcasting, "
             "row-major or NHWC",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: u8[2,70,5,9]; input w: u8[2,70,5,9]; const s: f32[] = [0.02]; const z: u8[] = [128]; "
         "const t: f32[] = [0.031]; const v: u8[] = [100]; a = from_bytes(x, s, z); b = from_bytes(w, t, v); c = "
         "add(a, b); y = to_bytes(c, t, z); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
