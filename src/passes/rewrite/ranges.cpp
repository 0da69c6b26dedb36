// Ranges, also through reshapes.
#include "passes/rewrite/ranges.hpp"

#include "passes/rewrite/views.hpp"

namespace peri::passes {

std::optional<Dim> one_size(const ir::Value* v) {
  if (const auto n = numbers_of(v)) return n->size() == 1 ? std::optional<Dim>((*n)[0]) : std::nullopt;
  if (v && v->content && v->content->size() == 1) return (*v->content)[0];
  return std::nullopt;
}

std::optional<Dim> counted(const ir::Value* v) {
  while (v->producer && is_reshape_like(*v->producer)) v = v->producer->in(0);
  const ir::Node* r = made_by(v, "range");
  if (!r) return std::nullopt;
  const auto start = one_size(r->in(0)), step = one_size(r->in(2));
  return start && step && start->is_const(0) && step->is_const(1) ? one_size(r->in(1)) : std::nullopt;
}

std::optional<Dim> counted_along(const ir::Value* v, size_t axis, size_t rank) {
  auto n = counted(v);
  if (!n || v->type.rank() > rank) return std::nullopt;
  const size_t missing = rank - v->type.rank();
  if (axis < missing) return std::nullopt;
  for (size_t k = missing; k < rank; ++k)
    if (k != axis && !(*v->type.shape)[k - missing].is_const(1)) return std::nullopt;
  return n;
}

}  // namespace peri::passes
