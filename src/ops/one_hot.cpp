// One_hot: a new axis of length depth with values[1] at each index (negative ones count from the end) and values[0]
// elsewhere; an index outside [-depth, depth) gives values[0] throughout.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
Result<int64_t> axis_of(const ir::Node& node, size_t rank) { return normalize_axis(node.i("axis", -1), rank + 1); }

Status infer(InferContext& c) {
  PERI_ASSIGN(const int64_t axis, axis_of(c.node, c.rank(0)));
  if (!one_element(c, 1) || c.rank(2) != 1 || (c.shape(2)[0].is_const() && !c.shape(2)[0].is_const(2)))
    return invalid("one_hot needs a scalar depth and two values");
  Dim depth;
  if (const std::vector<Dim>* known = c.known(1); known && known->size() == 1)
    depth = (*known)[0];
  else if (const auto& t = c.node.in(1)->constant; t && t->numel() == 1)
    depth = Dim(int_from(DType::kI64, t->f64(0)));
  else
    depth = c.fresh("depth");
  Shape s = c.shape(0);
  s.insert(s.begin() + axis, depth);
  c.set(0, c.dtype(2), std::move(s));
  return Ok{};
}

// Index under output position p, and the place along the new axis.
struct Place {
  int64_t inner, depth;
  int64_t index(int64_t p) const { return p / (depth * inner) * inner + p % inner; }
  int64_t along(int64_t p) const { return p / inner % depth; }
};
Place place_of(int64_t axis, const std::vector<int64_t>& out) {
  Place place{1, out[static_cast<size_t>(axis)]};
  for (size_t k = static_cast<size_t>(axis) + 1; k < out.size(); ++k) place.inner *= out[k];
  return place;
}

Status reference(RefCall& call) {
  const RefTensor &indices = *call.in[0], &values = *call.in[2];
  RefTensor& y = call.out[0];
  PERI_ASSIGN(const int64_t axis, axis_of(call.node, indices.dims.size()));
  const int64_t depth = int_from(DType::kI64, number_at(*call.in[1], 0));
  if (depth < 0) return invalid("one_hot has a negative depth").but_found(std::to_string(depth));
  std::vector<int64_t> dims = indices.dims;
  dims.insert(dims.begin() + axis, depth);
  if (dims != y.dims) PERI_TRY(resize(y, dims));
  const Place place = place_of(axis, dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    int64_t index = int_from(DType::kI64, std::clamp(number_at(indices, place.index(p)), -0x1p60, 0x1p60));
    if (index < 0) index += depth;
    copy_element(values, index == place.along(p) ? 1 : 0, y, p);
  }
  return Ok{};
}
bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  auto axis = axis_of(node, node.in(0)->type.rank());
  if (port != 0 || !axis.ok()) return false;
  const Place place = place_of(*axis, concrete(*node.out()));
  needed->clear();
  for (int64_t p : positions) needed->push_back(place.index(p));
  sort_unique(needed);
  return true;
}
}  // namespace

extern const Entry one_hot_entry;
const Entry one_hot_entry{{
    {.name = "one_hot",
     .onnx = "OneHot",
     .versions = {9, 11, 28},
     .inputs = {{"indices", kNumbers}, {"depth", kNumbers}, {"values", kMovable}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, false, "-1"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .jumps = true,
     .moves = true,
     .samples =
         {"graph { input i: i64[2,3]; const d: i64[] = [5]; const v: f32[2] = [0.0, 1.0]; y = one_hot(i, d, v); output "
          "y }",
          "graph { input i: i32[2,3]; const d: i32[1] = [3]; const v: i64[2] = [7, -2]; y = one_hot(i, d, v) {axis=0}; "
          "output y }",
          "graph { const i: f32[3] = [1.0, -1.0, 4.0]; const d: f32[] = [3.0]; const v: f16[2] = [0.5, 1.0]; y = "
          "one_hot(i, d, v) {axis=-2}; output y }",
          "graph { input i: i64[]; const d: i64[] = [4]; const v: bool[2] = [0, 1]; y = one_hot(i, d, v); output y }",
          "graph { input i: i64[3]; const d: i64[] = [0]; const v: f32[2] = [0.0, 1.0]; y = one_hot(i, d, v); output y "
          "}"}},
}};
}  // namespace peri::ops
