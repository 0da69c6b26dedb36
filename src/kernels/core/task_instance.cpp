// Arguments of simple kernels.
#include "kernels/core/task_instance.hpp"

#include "kernels/core/epilogue_match.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels {

Source Source::of(const Problem& problem, const ir::Value* v, std::span<const Tensor> constants) {
  Source s;
  if (!v) return s;
  s.input_ = input_index(*problem.graph, v);
  if (s.input_ < 0 && v->constant) s.constant_ = *v->constant;
  if (s.input_ >= 0 && static_cast<size_t>(s.input_) < constants.size())
    s.constant_ = constants[static_cast<size_t>(s.input_)];
  return s;
}

Status check_row_major(const Problem& problem) {
  for (const ir::Value* v : problem.graph->inputs)
    if (!v->type.layout.row_major()) return invalid("takes row-major tensors only");
  for (const ir::Value* v : problem.graph->outputs)
    if (!v->type.layout.row_major()) return invalid("makes row-major tensors only");
  return Ok{};
}

Offer row_major_offer(const Problem& problem) {
  Offer o;
  o.inputs.resize(problem.graph->inputs.size());
  o.outputs.resize(problem.graph->outputs.size());
  if (const auto isa = cpu::detect_isa()) o.requires_isa = cpu::isa_name(*isa);
  return o;
}

}  // namespace peri::kernels
