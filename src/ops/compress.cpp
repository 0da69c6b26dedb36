// Compress and non_zero: the number of elements depends on the data, so the length of the result is a new dimension.
#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/kept.hpp"

namespace peri::ops {
namespace {
Status infer_compress(InferContext& c) {
  if (c.rank(1) != 1) return invalid("the condition of compress must be a list").but_found(shape_text(c.shape(1)));
  Dim kept;
  if (const std::vector<Dim>* condition = c.known(1)) {
    for (const Dim& d : *condition) kept = kept + d;
  }
  if (!c.known(1) || !kept.is_const()) kept = c.fresh("compressed");
  if (!c.node.has("axis")) {
    c.set(0, c.dtype(0), {kept});
    return Ok{};
  }
  PERI_ASSIGN(const int64_t axis, normalize_axis(c.node.i("axis"), c.rank(0)));
  Shape s = c.shape(0);
  s[static_cast<size_t>(axis)] = kept;
  c.set(0, c.dtype(0), std::move(s));
  return Ok{};
}
Status compress(RefCall& call) {
  const RefTensor& x = *call.in[0];
  std::vector<int64_t> dims = call.node.has("axis") ? x.dims : std::vector<int64_t>{x.numel()};
  PERI_ASSIGN(const int64_t axis, normalize_axis(call.node.i("axis", 0), dims.size()));
  const size_t a = static_cast<size_t>(axis);
  std::vector<int64_t> kept;
  for (size_t k = 0; k < call.in[1]->i.size(); ++k)
    if (call.in[1]->i[k]) kept.push_back(static_cast<int64_t>(k));
  const int64_t length = dims[a];
  if (!kept.empty()) PERI_TRY(check_kept(kept.back(), length));
  int64_t inner = 1;
  for (size_t k = a + 1; k < dims.size(); ++k) inner *= dims[k];
  dims[a] = static_cast<int64_t>(kept.size());
  PERI_TRY(resize(call.out[0], dims));
  for (int64_t p = 0; p < call.out[0].numel(); ++p) {
    const int64_t outer = p / (dims[a] * inner), along = kept[static_cast<size_t>(p / inner % dims[a])];
    copy_element(x, (outer * length + along) * inner + p % inner, call.out[0], p);
  }
  return Ok{};
}

Status infer_non_zero(InferContext& c) {
  c.set(0, DType::kI64, {Dim(static_cast<int64_t>(c.rank(0))), c.fresh("nonzero")});
  return Ok{};
}
Status non_zero(RefCall& call) {
  const RefTensor& x = *call.in[0];
  std::vector<int64_t> found;
  for (int64_t p = 0; p < x.numel(); ++p) {
    const size_t at = static_cast<size_t>(p);
    if (x.dtype == DType::kString ? !x.s[at].empty() : x.floating() ? x.f[at] != 0 : x.i[at] != 0) found.push_back(p);
  }
  const int64_t rank = static_cast<int64_t>(x.dims.size()), count = static_cast<int64_t>(found.size());
  PERI_TRY(resize(call.out[0], {rank, count}));
  std::vector<int64_t> coordinates(x.dims.size());
  for (int64_t n = 0; n < count; ++n) {
    unravel(found[static_cast<size_t>(n)], x.dims, coordinates);
    for (int64_t k = 0; k < rank; ++k)
      call.out[0].i[static_cast<size_t>(k * count + n)] = coordinates[static_cast<size_t>(k)];
  }
  return Ok{};
}
}  // namespace

extern const Entry compress_entry;
const Entry compress_entry{{
    {.name = "compress",
     .onnx = "Compress",
     .versions = {9, 11, 28},
     .inputs = {{"x", kMovable}, {"condition", kBools}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, false, "flattened"}},
     .infer = infer_compress,
     .reference = compress,
     .moves = true,
     .samples = {"graph { input x: f32[3,4]; const c: bool[3] = [1, 0, 1]; y = compress(x, c) {axis=-1}; output y }",
                 "graph { input x: i64[3,4]; input c: bool[9]; y = compress(x, c); output y }",
                 "graph { input x: f32[3,0]; const c: bool[2] = [0, 1]; y = compress(x, c) {axis=0}; output y }"}},
    {.name = "non_zero",
     .onnx = "NonZero",
     .versions = {9, 13},
     .inputs = {{"x", kMovable}},
     .outputs = {{"y"}},
     .infer = infer_non_zero,
     .reference = non_zero,
     .jumps = true,
     .samples = {"graph { const x: f32[2,3] = [0.0, 1.0, -0.0, nan, 0.0, 2.0]; y = non_zero(x); output y }",
                 "graph { input x: bool[2,2,3]; y = non_zero(x); output y }",
                 "graph { input x: i32[]; y = non_zero(x); output y }",
                 "graph { input x: f32[0]; y = non_zero(x); output y }"}},
}};
}  // namespace peri::ops
