// Arguments of simple kernels.
#include "kernels/cpu/task_instance.hpp"

#include "kernels/cpu/isa.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {

namespace {
// Sizes that stand in the region as expressions, which are numbers by now.
std::optional<Tensor> sizes_of(const ir::Value& v) {
  const auto dims = eval(*v.type.shape, {});
  if (!dims.ok()) return std::nullopt;
  auto t = Tensor::zeros(v.type.dtype, *dims);
  if (!t.ok() || t->numel() != static_cast<int64_t>(v.content->size())) return std::nullopt;
  for (size_t k = 0; k < v.content->size(); ++k) {
    if (!(*v.content)[k].is_const()) return std::nullopt;
    t->set_i64(static_cast<int64_t>(k), (*v.content)[k].value());
  }
  return std::move(t).value();
}
}  // namespace

Source Source::of(const Problem& problem, const ir::Value* v, const Constants& constants) {
  Source s;
  if (!v) return s;
  s.input_ = input_index(*problem.graph, v);
  if (s.input_ < 0 && v->constant) s.constant_ = *v->constant;
  if (s.input_ < 0 && !v->constant && v->content) s.constant_ = sizes_of(*v).value_or(Tensor());
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

std::optional<size_t> data_argument(const Problem& problem) {
  const int k = input_index(*problem.graph, problem.anchor().in(0));
  return k < 0 ? std::nullopt : std::optional(static_cast<size_t>(k));
}

Offer row_major_offer(const Problem& problem, const Target& target) {
  Offer o;
  o.inputs.resize(problem.graph->inputs.size());
  o.outputs.resize(problem.graph->outputs.size());
  if (const auto isa = cpu::best_isa(target); isa.ok()) o.requires_isa = cpu::isa_name(*isa);
  return o;
}

std::vector<Offer> any_order_offers(const Problem& problem, const Target& target) {
  std::vector<Offer> out = {row_major_offer(problem, target)};
  const ir::Node& n = problem.anchor();
  const auto input = data_argument(problem);
  if (!input || n.in(0)->type.rank() != 4 || problem.graph->outputs[0] != n.out()) return out;
  out.push_back(out[0]);
  out[1].inputs[*input] = ir::nhwc();
  out[1].outputs[0] = ir::nhwc();
  return out;
}

Status check_same_layout(const Problem& problem) {
  const ir::Layout& layout = problem.anchor().in(0)->type.layout;
  if (!(layout == problem.anchor().out()->type.layout)) return invalid("argument and result in different layouts");
  return layout.row_major() || layout == ir::nhwc() ? Status(Ok{}) : invalid("takes row-major and NHWC only");
}

}  // namespace peri::kernels
