// Kernel elementwise_typed: regions of element-wise ops on integers of any width, bool, float64 and casts between all
// of them, and the functions of float32 for which block code has no instruction.
#include <algorithm>

#include "kernels/block/translate.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/typed/plan.hpp"

namespace peri::kernels {
namespace {
namespace typed = cpu::typed;

typed::Find loops_of(cpu::Isa isa) { return isa == cpu::Isa::kAvx512 ? typed::avx512::find : typed::avx2::find; }

// What has registers of float32 for all it reads and makes is done by block code.
bool has_block_code(const Problem& p) {
  const auto is_f32 = [](const ir::Value* v) { return v->type.dtype == DType::kF32; };
  return std::all_of(p.graph->inputs.begin(), p.graph->inputs.end(), is_f32) &&
         std::all_of(p.graph->outputs.begin(), p.graph->outputs.end(), is_f32) && block::translate(p).ok();
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  if (has_block_code(p)) return refused("block code does it");
  PERI_ASSIGN(const auto isa, cpu::best_isa(target));
  PERI_TRY(typed::make_plan(p, {}, loops_of(isa)));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  PERI_ASSIGN(typed::Plan made, typed::make_plan(p, c.constants, loops_of(isa)));
  const auto plan = std::make_shared<const typed::Plan>(std::move(made));
  return TaskInstance::make(typed::task_count(*plan), typed::scratch_bytes(*plan),
                            [plan](int64_t task, const Args& args) { typed::run_task(*plan, task, args); });
}
}  // namespace

extern const Entry elementwise_typed_entry;
const Entry elementwise_typed_entry{{
    .name = "elementwise_typed",
    .version = 1,
    .provider = "peri",
    .takes = "regions of element-wise ops on integers of any width, bool, f64, and casts between all numbers",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .takes_constants = true,
}};

}  // namespace peri::kernels
