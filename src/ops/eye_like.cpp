// Eye_like: ones on diagonal k of a matrix with the shape of the input; trilu: the part above or below diagonal k.
#include "ops/reference/elements.hpp"
#include "ops/reference/unary.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
Status infer_eye(InferContext& c) {
  if (c.rank(0) != 2) return invalid("eye_like needs a matrix").but_found(shape_text(c.shape(0)));
  const int64_t wanted = c.node.i("dtype", static_cast<int64_t>(c.dtype(0)));
  if (wanted <= 0 || wanted >= kDTypeCount || !contains(kNumbers | kBools, static_cast<DType>(wanted)))
    return invalid("eye_like cannot make its 'dtype'").but_found(std::to_string(wanted));
  c.set(0, static_cast<DType>(wanted), c.shape(0));
  return Ok{};
}
Status eye(RefCall& call) {
  RefTensor& y = call.out[0];
  const int64_t columns = y.dims[1], k = call.node.i("k", 0);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    const bool on = p % columns - p / columns == k;
    if (y.floating())
      y.f[static_cast<size_t>(p)] = on;
    else
      y.i[static_cast<size_t>(p)] = on;
  }
  return Ok{};
}
bool pull_nothing(const ir::Node&, size_t, std::span<const int64_t>, std::vector<int64_t>* needed) {
  needed->clear();
  return true;
}
Cost cost_eye(const ir::Node& node) { return {0, 0, numel_of(node.out()) * dtype_bits(node.out()->type.dtype) / 8.0}; }

Status infer_trilu(InferContext& c) {
  if (c.rank(0) < 2) return invalid("trilu needs matrices").but_found(shape_text(c.shape(0)));
  if (c.has(1) && !one_element(c, 1))
    return invalid("the diagonal of trilu must be a scalar").but_found(shape_text(c.shape(1)));
  return infer_same(c);
}
Status trilu(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  const RefTensor zero = make_ref(x.dtype, {});
  const bool upper = call.node.i("upper", 1) != 0;
  const int64_t k = call.in.size() > 1 && call.in[1] ? call.in[1]->i[0] : 0;
  const int64_t rows = y.dims[y.dims.size() - 2], columns = y.dims.back();
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), row = p / columns % rows, column = p % columns;
    // k may be as large as int64 allows: it is compared, never added to.
    if (upper ? column - row >= k : column - row <= k)
      copy_element(x, p, y, p);
    else
      copy_element(zero, 0, y, p);
  }
  return Ok{};
}
}  // namespace

extern const Entry eye_like_entry;
const Entry eye_like_entry{{
    {.name = "eye_like",
     .onnx = "EyeLike",
     .versions = {9, 22},
     .inputs = {{"x", kNumbers | kBools}},
     .outputs = {{"y"}},
     .attrs = {{"dtype", AttrKind::kType, false, "the type of x"}, {"k", AttrKind::kInt, false, "0"}},
     .infer = infer_eye,
     .reference = eye,
     .pull = pull_nothing,
     .cost = cost_eye,
     .samples = {"graph { input x: f32[3,4]; y = eye_like(x); output y }",
                 "graph { input x: i32[4,3]; y = eye_like(x) {k=-1, dtype=2}; output y }",
                 "graph { input x: f32[2,5]; y = eye_like(x) {k=7, dtype=23}; output y }",
                 "graph { input x: f32[0,3]; y = eye_like(x); output y }"}},
    {.name = "trilu",
     .onnx = "Trilu",
     .versions = {14},
     .inputs = {{"x", kMovable}, {"k", types({DType::kI64}), true}},
     .outputs = {{"y"}},
     .attrs = {{"upper", AttrKind::kInt, false, "1"}},
     .infer = infer_trilu,
     .reference = trilu,
     .pull = pull_same,
     .cost = cost_move,
     .samples = {"graph { input x: f32[2,3,4]; y = trilu(x); output y }",
                 "graph { input x: i64[4,3]; const k: i64[] = [-1]; y = trilu(x, k) {upper=0}; output y }",
                 "graph { input x: f32[3,3]; const k: i64[] = [9]; y = trilu(x, k); output y }",
                 "graph { input x: bool[3,0]; y = trilu(x); output y }"}},
}};
}  // namespace peri::ops
