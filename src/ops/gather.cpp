// Gather: slices of data along one axis, selected by indices of any rank; negative ones count from the end. Contents of
// shape tensors are propagated, so that Shape -> Gather gives a dimension.
#include "ops/reference/position_set.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

// data[outer, extent, inner], y[outer, picks, inner].
struct Sizes {
  int64_t outer, extent, inner, picks, axis;
  Sizes(const ir::Node& node, const std::vector<int64_t>& data, int64_t indices)
      : picks(indices), axis(*normalize_axis(node.i("axis", 0), data.size())) {
    const size_t a = static_cast<size_t>(axis);
    outer = span_of(data, 0, a);
    extent = data[a];
    inner = span_of(data, a + 1, data.size());
  }
};

// Known elements under known indices.
void pass_content(InferContext& c) {
  const auto indices = known_input(c, 1);
  if (!indices) return;
  for (const Dim& d : indices->elements)
    if (!d.is_const()) return;
  content_moved(c, 0, [&](int64_t p, const std::vector<int64_t>& data, const std::vector<int64_t>&) {
    const Sizes s(c.node, data, numel_of(indices->dims));
    const int64_t row = indices->elements[static_cast<size_t>(p / s.inner % s.picks)].value();
    return (p / (s.inner * s.picks) * s.extent + (row < 0 ? row + s.extent : row)) * s.inner + p % s.inner;
  });
}

Status infer(InferContext& c) {
  const Shape &data = c.shape(0), &indices = c.shape(1);
  if (data.empty()) return invalid("data is a scalar").expecting("rank >= 1");
  PERI_ASSIGN(const int64_t axis, normalize_axis(c.node.i("axis", 0), data.size()));
  const Dim& extent = data[static_cast<size_t>(axis)];
  const std::vector<Dim>* known = c.elements(1);
  if (known && extent.is_const())
    for (const Dim& d : *known)
      if (d.is_const()) PERI_TRY(checked_index(d.value(), extent.value(), axis));
  Shape y(data.begin(), data.begin() + axis);
  y.insert(y.end(), indices.begin(), indices.end());
  y.insert(y.end(), data.begin() + axis + 1, data.end());
  c.set(0, c.dtype(0), std::move(y));
  pass_content(c);
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor &data = *call.in[0], &indices = *call.in[1];
  if (call.out[0].numel() == 0) return Ok{};
  const Sizes s(call.node, data.dims, indices.numel());
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    PERI_ASSIGN(const int64_t row,
                checked_index(indices.i[static_cast<size_t>(p / s.inner % s.picks)], s.extent, s.axis));
    copy_element(data, (p / (s.inner * s.picks) * s.extent + row) * s.inner + p % s.inner, call.out[0], p);
  }
  return Ok{};
}

// Which slices are needed is in the indices: known ones narrow the data, others take all of it.
bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const std::vector<int64_t> data = concrete(*node.in(0)), indices = concrete(*node.in(1));
  const Sizes s(node, data, span_of(indices, 0, indices.size()));
  const std::optional<std::vector<int64_t>> chosen = known_ints(node.in(1));
  if (port == 0 && !chosen) return false;
  PositionSet set(port == 0 ? s.outer * s.extent * s.inner : s.picks);
  for (int64_t p : positions) {
    const int64_t pick = p / s.inner % s.picks;
    if (port == 1) {
      set.add(pick);
    } else {
      const int64_t row = (*chosen)[static_cast<size_t>(pick)];
      set.add((p / (s.inner * s.picks) * s.extent + (row < 0 ? row + s.extent : row)) * s.inner + p % s.inner);
    }
  }
  set.list(needed);
  return true;
}

std::vector<Dim> index_ends(const ir::Node& node) { return axis_end(node, 0); }

// Indices that are known are held against the size of their axis.
bool any_size(const ir::Node& node) {
  if (!node.in(1)->constant && !node.in(1)->content) return true;
  const int64_t axis = node.i("axis", 0), rank = static_cast<int64_t>(shape_of(node.in(0)).size());
  return shape_of(node.in(0))[static_cast<size_t>(axis < 0 ? axis + rank : axis)].is_const();
}

}  // namespace

extern const Entry gather_entry;
const Entry gather_entry{{
    {.name = "gather",
     .onnx = "Gather",
     .versions = {1, 11, 13},
     .inputs = {{"data", kMovable}, {"indices", kIndex, false, false, -1, Role::kIndex}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, false, "0"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .moves = true,
     .index_ends = index_ends,
     .any_size = any_size,
     .samples =
         {"graph { input data: f32[5,4]; const i: i64[2,3] = [0, 4, -1, 2, 2, -5]; y = gather(data, i); output y }",
          "graph { input data: f32[3,5,2]; const i: i32[2] = [4, 0]; y = gather(data, i) {axis=1}; output y }",
          "graph { input data: i64[6]; const i: i64[] = [3]; y = gather(data, i); output y }",
          "graph { input data: f32[2,3]; const i: i64[0] = []; y = gather(data, i) {axis=-1}; output y }",
          "graph { input data: f16[4,3]; const i: i64[2] = [1, -2]; y = gather(data, i); output y }",
          "graph { input data: f32[0,3]; const i: i64[2] = [1, 2]; y = gather(data, i) {axis=1}; output y }"}},
}};
}  // namespace peri::ops
