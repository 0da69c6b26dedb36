// Reshape (0, -1, allowzero; symbolic) and flatten: the same elements in the same order under other dimensions.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
// Drops dimensions that stand in both lists, so that what remains divides exactly more often; 0 as a dimension of that
// size at hand, which stands for any other.
void cancel(std::vector<Dim>* a, std::vector<Dim>* b) {
  for (size_t k = 0; k < a->size();) {
    auto it = std::find((*b).begin(), (*b).end(), (*a)[k]);
    if (it == b->end()) {
      ++k;
      continue;
    }
    b->erase(it);
    a->erase(a->begin() + static_cast<std::ptrdiff_t>(k));
  }
}

// The dimension that -1 stands for: elements of `from` over elements of the other dimensions.
Result<Dim> rest_of(std::vector<Dim> from, std::vector<Dim> others) {
  cancel(&from, &others);
  const Dim total = product(from), part = product(others);
  if (part.is_const(0))
    return invalid("reshape cannot infer -1 beside a dimension of 0").advise("write the dimension out");
  if (total.is_const() && part.is_const() && total.value() % part.value() != 0)
    return invalid("reshape does not divide evenly")
        .expecting("a multiple of " + part.text() + " elements")
        .but_found(total.text());
  return floordiv(total, part);
}

Result<Shape> target_of(InferContext& c) {
  PERI_ASSIGN(Shape wanted, shape_from(c, 1, "reshaped"));
  const bool zero_copies = c.node.i("allowzero", 0) == 0;
  int rest = -1;
  const bool zero = std::any_of(wanted.begin(), wanted.end(), [](const Dim& d) { return d.is_const(0); });
  for (size_t k = 0; k < wanted.size(); ++k) {
    if (wanted[k].is_const(0) && zero_copies) {
      if (k >= c.rank(0)) return invalid("reshape copies axis %zu of an input of rank %zu", k, c.rank(0));
      wanted[k] = c.shape(0)[k];
    } else if (wanted[k].is_const(-1)) {
      if (rest >= 0) return invalid("reshape has two dimensions of -1");
      rest = static_cast<int>(k);
    }
  }
  std::vector<Dim> others = wanted, from = c.shape(0);
  if (rest >= 0 && zero && !zero_copies)
    return invalid("reshape cannot infer -1 beside a dimension of 0").advise("write the dimension out");
  if (rest >= 0) {
    others.erase(others.begin() + rest);
    PERI_ASSIGN(wanted[static_cast<size_t>(rest)], rest_of(from, others));
    return wanted;
  }
  const Dim total = product(from), made = product(wanted);
  if (total.is_const() && made.is_const() && !(total == made))
    return invalid("reshape changes the number of elements")
        .expecting(total.text())
        .but_found(made.text() + " for " + shape_text(wanted));
  return wanted;
}

Status infer_reshape(InferContext& c) {
  PERI_ASSIGN(Shape s, target_of(c));
  c.set(0, c.dtype(0), std::move(s));
  content_same(c);
  return Ok{};
}
Status infer_flatten(InferContext& c) {
  const int64_t rank = static_cast<int64_t>(c.rank(0)), given = c.node.i("axis", 1);
  if (given < -rank || given > rank)
    return invalid("flatten has a bad axis")
        .expecting(format("an axis in [%ld, %ld]", -rank, rank))
        .but_found(std::to_string(given));
  const size_t axis = static_cast<size_t>(given < 0 ? given + rank : given);
  const std::span<const Dim> dims(c.shape(0));
  c.set(0, c.dtype(0), {product(dims.first(axis)), product(dims.subspan(axis))});
  content_same(c);
  return Ok{};
}
Status copy(RefCall& call) {
  if (call.out[0].numel() != call.in[0]->numel()) return invalid("reshape changes the number of elements of its input");
  return move_elements(call, *call.in[0], [](int64_t p) { return p; });
}
}  // namespace

extern const Entry reshape_entry;
const Entry reshape_entry{{
    {.name = "reshape",
     .onnx = "Reshape",
     .versions = {5, 13, 14, 19, 21, 23, 24, 25},
     .inputs = {{"x", kMovable}, {"shape", types({DType::kI64})}},
     .outputs = {{"y"}},
     .attrs = {{"allowzero", AttrKind::kInt, false, "0"}},
     .infer = infer_reshape,
     .reference = copy,
     .pull = pull_same,
     .cost = cost_view,
     .view = true,
     .moves = true,
     .samples = {"graph { input x: f32[2,3,4]; const s: i64[2] = [4, 6]; y = reshape(x, s); output y }",
                 "graph { input x: f32[2,3,4]; const s: i64[3] = [0, -1, 2]; y = reshape(x, s); output y }",
                 "graph { input x: f32[0,3]; const s: i64[2] = [3, 0]; y = reshape(x, s) {allowzero=1}; output y }",
                 "graph { input x: i32[1]; const s: i64[0] = []; y = reshape(x, s); output y }",
                 "graph { input x: f16[]; const s: i64[3] = [1, 1, -1]; y = reshape(x, s); output y }"}},
    {.name = "flatten",
     .onnx = "Flatten",
     .versions = {1, 9, 11, 13, 21, 23, 24, 25},
     .inputs = {{"x", kMovable}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, false, "1"}},
     .infer = infer_flatten,
     .reference = copy,
     .pull = pull_same,
     .cost = cost_view,
     .view = true,
     .moves = true,
     .samples = {"graph { input x: f32[2,3,4]; y = flatten(x); output y }",
                 "graph { input x: f32[2,3,4]; y = flatten(x) {axis=0}; output y }",
                 "graph { input x: f32[2,3,4]; y = flatten(x) {axis=-1}; output y }",
                 "graph { input x: f32[2,0,4]; y = flatten(x) {axis=3}; output y }",
                 "graph { input x: f32[]; y = flatten(x) {axis=0}; output y }"}},
}};
}  // namespace peri::ops
