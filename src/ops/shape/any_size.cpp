// The rule in the op's definition, or the common rule of element-wise ops.
#include "ops/shape/any_size.hpp"

#include <algorithm>

#include "ops/entry.hpp"

namespace peri::ops {

const Shape& shape_of(const ir::Value* v) { return *v->type.shape; }

bool aligned(const Shape& from, std::span<const Dim> to) {
  if (from.size() > to.size()) return false;
  for (size_t k = 1; k <= from.size(); ++k)
    if (const Dim& d = from[from.size() - k]; !d.is_const(1) && !(d == to[to.size() - k])) return false;
  return true;
}

bool any_size_of_one_input(const ir::Node& n) { return n.inputs.size() == 1; }

bool any_size_of_norm(const ir::Node& n) {
  const Shape& x = shape_of(n.in(0));
  return aligned(shape_of(n.in(1)), x) && (!n.in(2) || aligned(shape_of(n.in(2)), x));
}

bool any_size_of_batch(const ir::Node& n) {
  const auto numbers = [](const ir::Value* v, size_t from) {
    return std::all_of(shape_of(v).begin() + static_cast<std::ptrdiff_t>(from), shape_of(v).end(),
                       [](const Dim& d) { return d.is_const(); });
  };
  if (shape_of(n.in(0)).size() < 2 || !numbers(n.in(0), 1)) return false;
  for (size_t k = 1; k < n.inputs.size(); ++k)
    if (n.inputs[k] && !numbers(n.inputs[k], 0)) return false;
  return std::all_of(n.outputs.begin(), n.outputs.end(), [&](const ir::Value* v) {
    return !shape_of(v).empty() && shape_of(v)[0] == shape_of(n.in(0))[0] && numbers(v, 1);
  });
}

bool any_size_of_reduction(const ir::Node& n) { return !n.in(1) || n.in(1)->constant; }

namespace {
bool all_aligned(const ir::Node& n) {
  return std::all_of(n.inputs.begin(), n.inputs.end(),
                     [&](const ir::Value* v) { return !v || aligned(shape_of(v), shape_of(n.out())); });
}

// Elements that are known depend on sizes only where expressions are among them, or were put together by another node.
bool contents_hold(const ir::Node& n) {
  for (const ir::Value* v : n.inputs)
    if (v && contains(kInts | kBools, v->type.dtype) && (v->producer || (v->content && !v->constant))) return false;
  for (const ir::Value* v : n.outputs)
    if (v->content && !is_const(*v->content)) return false;
  return true;
}
}  // namespace

bool holds_at_any_size(const ir::Node& node) {
  const OpDef* op = find(node.op);
  if (!op || !contents_hold(node)) return false;
  if (op->any_size) return op->any_size(node);
  return op->elementwise && all_aligned(node);
}

}  // namespace peri::ops
