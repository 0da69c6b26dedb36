// One rule an op whose inference only compares and passes on dimensions; every other op is inferred at each size.
#include "ops/core/any_size.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "ops/entry.hpp"

namespace peri::ops {
namespace {

const Shape& shape(const ir::Value* v) { return *v->type.shape; }

// Broadcasts to `to` at any size: each dimension is 1 or, as an expression, that of `to`.
bool aligned(const Shape& from, std::span<const Dim> to) {
  if (from.size() > to.size()) return false;
  for (size_t k = 1; k <= from.size(); ++k)
    if (const Dim& d = from[from.size() - k]; !d.is_const(1) && !(d == to[to.size() - k])) return false;
  return true;
}

bool all_aligned(const ir::Node& n) {
  return std::all_of(n.inputs.begin(), n.inputs.end(),
                     [&](const ir::Value* v) { return !v || aligned(shape(v), shape(n.out())); });
}
bool all_equal(const ir::Node& n) {
  return std::all_of(n.inputs.begin(), n.inputs.end(),
                     [&](const ir::Value* v) { return v && shape(v) == shape(n.out()); });
}
bool first_only(const ir::Node& n) { return n.inputs.size() == 1; }

bool matmul(const ir::Node& n) {
  const Shape &a = shape(n.in(0)), &b = shape(n.in(1)), &y = shape(n.out());
  if (a.size() < 2 || b.size() < 2 || !(a.back() == b[b.size() - 2])) return false;
  const std::span<const Dim> batch = std::span(y).first(y.size() - 2);
  return aligned(Shape(a.begin(), a.end() - 2), batch) && aligned(Shape(b.begin(), b.end() - 2), batch);
}
bool gemm(const ir::Node& n) {
  const Dim &k = shape(n.in(0))[n.i("transA") == 0], &l = shape(n.in(1))[n.i("transB") != 0];
  return k == l && (!n.in(2) || aligned(shape(n.in(2)), shape(n.out())));
}
bool norm(const ir::Node& n) {
  return aligned(shape(n.in(1)), shape(n.in(0))) && (!n.in(2) || aligned(shape(n.in(2)), shape(n.in(0))));
}

bool attention(const ir::Node& n) {
  constexpr std::string_view kLetters = "bhsd";
  constexpr const char* kLayouts[] = {"q_layout", "k_layout", "v_layout"};
  std::array<Dim, 4> e[3];
  for (size_t port = 0; port < 3; ++port) {
    e[port].fill(Dim(1));
    const std::string layout = n.s(kLayouts[port], kLetters);
    for (size_t k = 0; k < layout.size(); ++k) e[port][kLetters.find(layout[k])] = shape(n.in(port))[k];
  }
  const auto& [q, k, v] = e;
  const bool same = q[0] == k[0] && q[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[3] == k[3];
  return same && q[1].is_const() && k[1].is_const() &&
         (!n.in(3) || aligned(shape(n.in(3)), Shape{q[0], q[1], q[2], k[2]}));
}

// Indices that are known are held against the size of their axis.
bool gather(const ir::Node& n) {
  if (!n.in(1)->constant && !n.in(1)->content) return true;
  const int64_t axis = n.i("axis", 0), rank = static_cast<int64_t>(shape(n.in(0)).size());
  return shape(n.in(0))[static_cast<size_t>(axis < 0 ? axis + rank : axis)].is_const();
}
// Windows, channels and weights are numbers; the first dimension, that of the batch, is passed on.
bool batch_only(const ir::Node& n) {
  const auto numbers = [](const ir::Value* v, size_t from) {
    return std::all_of(shape(v).begin() + static_cast<std::ptrdiff_t>(from), shape(v).end(),
                       [](const Dim& d) { return d.is_const(); });
  };
  if (shape(n.in(0)).size() < 2 || !numbers(n.in(0), 1)) return false;
  for (size_t k = 1; k < n.inputs.size(); ++k)
    if (n.inputs[k] && !numbers(n.inputs[k], 0)) return false;
  return std::all_of(n.outputs.begin(), n.outputs.end(), [&](const ir::Value* v) {
    return !shape(v).empty() && shape(v)[0] == shape(n.in(0))[0] && numbers(v, 1);
  });
}
// Sizes along the axis add up, the others agree.
bool concat(const ir::Node& n) {
  const int64_t axis = n.i("axis", 0), rank = static_cast<int64_t>(shape(n.out()).size());
  for (const ir::Value* v : n.inputs)
    for (int64_t k = 0; k < rank; ++k)
      if (k != (axis < 0 ? axis + rank : axis) &&
          !(shape(v)[static_cast<size_t>(k)] == shape(n.out())[static_cast<size_t>(k)]))
        return false;
  return true;
}
bool constant_axes(const ir::Node& n) { return !n.in(1) || n.in(1)->constant; }

using Rule = bool (*)(const ir::Node&);
const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> kRules = {
      {"attention", attention},
      {"average_pool", batch_only},
      {"batch_normalization", batch_only},
      {"concat", concat},
      {"conv", batch_only},
      {"gather", gather},
      {"gemm", gemm},
      {"global_average_pool", batch_only},
      {"global_max_pool", batch_only},
      {"layer_normalization", norm},
      {"log_softmax", first_only},
      {"matmul", matmul},
      {"max_pool", batch_only},
      {"reduce_l1", constant_axes},
      {"reduce_l2", constant_axes},
      {"reduce_max", constant_axes},
      {"reduce_mean", constant_axes},
      {"reduce_min", constant_axes},
      {"reduce_prod", constant_axes},
      {"reduce_sum", constant_axes},
      {"relayout", first_only},
      {"rms_normalization", norm},
      {"softmax", first_only},
      {"swiglu", all_equal},
      {"transpose", first_only},
  };
  return kRules;
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
  const auto rule = rules().find(node.op);
  if (rule != rules().end()) return rule->second(node);
  return op->elementwise && all_aligned(node);
}

}  // namespace peri::ops
