// Concat: inputs concatenated along one axis, in order.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
// Equal dimensions off the axis; a number wins over a symbol.
Result<Dim> same_dim(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const() && !(a == b))
    return invalid("concat of different dimensions").expecting(a.text()).but_found(b.text());
  return b.is_const() ? b : a;
}

// Where a position of the output comes from.
struct Joint {
  int64_t inner = 1, whole = 1;  // elements behind the axis; length of the axis times inner
  std::vector<int64_t> starts;   // first index of each input along the axis, times inner; the end last
  std::pair<size_t, int64_t> source(int64_t p) const {
    const int64_t row = p / whole, at = p % whole;
    const size_t k = static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), at) - starts.begin()) - 1;
    return {k, row * (starts[k + 1] - starts[k]) + at - starts[k]};
  }
};
Joint joint_of(int64_t axis, const std::vector<std::vector<int64_t>>& inputs) {
  Joint j;
  const size_t a = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(inputs[0].size()) : axis);
  for (size_t k = a + 1; k < inputs[0].size(); ++k) j.inner *= inputs[0][k];
  j.starts = {0};
  for (const auto& dims : inputs) j.starts.push_back(j.starts.back() + dims[a] * j.inner);
  j.whole = j.starts.back();
  return j;
}

// The known elements of all inputs, joined.
void pass_content(InferContext& c, int64_t axis) {
  const auto dims = countable(c.out[0]);
  if (!dims) return;
  std::vector<Known> parts;
  std::vector<std::vector<int64_t>> part_dims;
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    auto part = known_input(c, i);
    if (!part) return;
    part_dims.push_back(part->dims);
    parts.push_back(*std::move(part));
  }
  const Joint j = joint_of(axis, part_dims);
  std::vector<Dim> out;
  for (int64_t p = 0; p < numel_of(*dims); ++p) {
    const auto [port, at] = j.source(p);
    out.push_back(parts[port].elements[static_cast<size_t>(at)]);
  }
  c.set_content(0, std::move(out));
}

Status infer(InferContext& c) {
  Shape out = c.shape(0);
  PERI_ASSIGN(const int64_t axis, normalize_axis(c.node.i("axis"), out.size()));
  for (size_t i = 1; i < c.node.inputs.size(); ++i) {
    if (c.rank(i) != out.size())
      return invalid("concat of different ranks")
          .expecting(std::to_string(out.size()))
          .but_found(std::to_string(c.rank(i)));
    for (size_t k = 0; k < out.size(); ++k) {
      if (static_cast<int64_t>(k) == axis) {
        out[k] = out[k] + c.shape(i)[k];
      } else {
        PERI_ASSIGN(out[k], same_dim(out[k], c.shape(i)[k]));
      }
    }
  }
  c.set(0, c.dtype(0), std::move(out));
  pass_content(c, axis);
  return Ok{};
}

Status reference(RefCall& call) {
  std::vector<std::vector<int64_t>> dims;
  for (const RefTensor* t : call.in) dims.push_back(t->dims);
  const Joint j = joint_of(call.node.i("axis"), dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const auto [port, at] = j.source(call.position(n));
    copy_element(*call.in[port], at, call.out[0], call.position(n));
  }
  return Ok{};
}
bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  std::vector<std::vector<int64_t>> dims;
  for (const ir::Value* v : node.inputs) dims.push_back(concrete(*v));
  const Joint j = joint_of(node.i("axis"), dims);
  needed->clear();
  for (int64_t p : positions)
    if (const auto [from, at] = j.source(p); from == port) needed->push_back(at);
  sort_unique(needed);
  return true;
}

// Sizes along the axis add up, the others agree.
bool any_size(const ir::Node& node) {
  const int64_t axis = node.i("axis", 0), rank = static_cast<int64_t>(shape_of(node.out()).size());
  for (const ir::Value* v : node.inputs)
    for (int64_t k = 0; k < rank; ++k)
      if (k != (axis < 0 ? axis + rank : axis) &&
          !(shape_of(v)[static_cast<size_t>(k)] == shape_of(node.out())[static_cast<size_t>(k)]))
        return false;
  return true;
}

}  // namespace

extern const Entry concat_entry;
const Entry concat_entry{{
    {.name = "concat",
     .onnx = "Concat",
     .versions = {4, 11, 13},
     .inputs = {{"x", kMovable}, {"more", kMovable, true, true, 0}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, true}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .moves = true,
     .any_size = any_size,
     .samples =
         {"graph { input a: f32[2,3]; input b: f32[2,1]; input c: f32[2,4]; y = concat(a, b, c) {axis=1}; output y }",
          "graph { input a: i64[2]; input b: i64[3]; y = concat(a, b) {axis=-1}; output y }",
          "graph { input a: f32[0,3]; input b: f32[2,3]; y = concat(a, b) {axis=0}; output y }",
          "graph { input a: f16[2,2,3]; input b: f16[2,0,3]; input c: f16[2,2,3]; y = concat(a, b, c) {axis=-2}; "
          "output y }",
          "graph { input a: bool[3]; y = concat(a) {axis=0}; output y }"}},
}};
}  // namespace peri::ops
