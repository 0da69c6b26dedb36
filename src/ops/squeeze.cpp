// Squeeze and unsqueeze: remove and insert dimensions of 1; axes are an input (an attribute before opset 13).
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {
Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  return opset < 13 ? ints_to_input(graph, node, "axes", 1) : Status(Ok{});
}

// How many axes input 1 names, when it is known only while running which.
Result<int64_t> axis_count(InferContext& c) {
  if (c.rank(1) == 0) return int64_t{1};
  if (c.rank(1) != 1 || !c.shape(1)[0].is_const())
    return unsupported("the number of axes of %s must be known", c.node.op.c_str())
        .advise("export the model with fixed axes");
  return c.shape(1)[0].value();
}

Status infer_squeeze(InferContext& c) {
  const Shape& in = c.shape(0);
  std::vector<bool> gone(in.size());
  if (c.has(1)) {
    const std::optional<std::vector<int64_t>> known = numbers_of(c, 1);
    if (!known) {
      PERI_ASSIGN(const int64_t count, axis_count(c));
      if (count > static_cast<int64_t>(in.size())) return invalid("squeeze names more axes than its input has");
      c.set(0, c.dtype(0), fresh_shape(c, in.size() - static_cast<size_t>(count), "squeezed"));
      return Ok{};
    }
    PERI_ASSIGN(const std::vector<int64_t> axes, normalize_axes(*known, in.size()));
    for (int64_t a : axes) {
      const Dim& d = in[static_cast<size_t>(a)];
      if (d.is_const() && !d.is_const(1))
        return invalid("squeeze of axis %ld", a).expecting("a dimension of 1").but_found(d.text());
      gone[static_cast<size_t>(a)] = true;
    }
  } else {
    for (size_t k = 0; k < in.size(); ++k) {
      if (!in[k].is_const() && !provably_at_least(in[k], 2))
        return unsupported("squeeze without axes where dimension '%s' may be 1", in[k].text().c_str())
            .advise("export the model with explicit axes");
      gone[k] = in[k].is_const(1);
    }
  }
  Shape out;
  for (size_t k = 0; k < in.size(); ++k)
    if (!gone[k]) out.push_back(in[k]);
  c.set(0, c.dtype(0), std::move(out));
  content_same(c);
  return Ok{};
}

Status infer_unsqueeze(InferContext& c) {
  const std::optional<std::vector<int64_t>> known = numbers_of(c, 1);
  if (!known) {
    PERI_ASSIGN(const int64_t count, axis_count(c));
    c.set(0, c.dtype(0),
          fresh_shape(c, c.rank(0) + static_cast<size_t>(std::clamp<int64_t>(count, 0, 33)), "unsqueezed"));
    return Ok{};
  }
  PERI_ASSIGN(const std::vector<int64_t> axes, normalize_axes(*known, c.rank(0) + known->size()));
  Shape out = c.shape(0);
  for (int64_t a : axes) out.insert(out.begin() + a, Dim(1));  // ascending: each position is final when it is used
  c.set(0, c.dtype(0), std::move(out));
  content_same(c);
  return Ok{};
}

Status copy(RefCall& call) {
  return move_elements(call, *call.in[0], [](int64_t p) { return p; });
}
}  // namespace

extern const Entry squeeze_entry;
const Entry squeeze_entry{{
    {.name = "squeeze",
     .onnx = "Squeeze",
     .versions = {1, 11, 13, 21, 23, 24, 25},
     .inputs = {{"x", kMovable}, {"axes", types({DType::kI64}), true}},
     .outputs = {{"y"}},
     .upgrade = upgrade,
     .infer = infer_squeeze,
     .reference = copy,
     .pull = pull_same,
     .cost = cost_view,
     .view = true,
     .moves = true,
     .samples = {"graph { input x: f32[1,3,1,5]; y = squeeze(x); output y }",
                 "graph { input x: f32[1,3,1,5]; const a: i64[1] = [-2]; y = squeeze(x, a); output y }",
                 "graph { input x: i8[1,1]; const a: i64[2] = [1, 0]; y = squeeze(x, a); output y }"}},
    {.name = "unsqueeze",
     .onnx = "Unsqueeze",
     .versions = {1, 11, 13, 21, 23, 24, 25},
     .inputs = {{"x", kMovable}, {"axes", types({DType::kI64})}},
     .outputs = {{"y"}},
     .upgrade = upgrade,
     .infer = infer_unsqueeze,
     .reference = copy,
     .pull = pull_same,
     .cost = cost_view,
     .view = true,
     .moves = true,
     .samples = {"graph { input x: f32[3,5]; const a: i64[2] = [0, -1]; y = unsqueeze(x, a); output y }",
                 "graph { input x: bool[]; const a: i64[1] = [0]; y = unsqueeze(x, a); output y }",
                 "graph { input x: f32[0]; const a: i64[2] = [2, 0]; y = unsqueeze(x, a); output y }"}},
}};
}  // namespace peri::ops
