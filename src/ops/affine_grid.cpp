// AffineGrid: for every position of an image or volume, evenly spaced in [-1, 1] along each axis, the position to which
// the affine matrix of its batch maps it. With aligned corners a single position along an axis is -1.
#include "ops/reference/cost.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/norm.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape &theta = c.shape(0), &size = c.shape(1);
  // What is not known of theta follows from the length of size.
  const auto may_have = [&](int64_t rank) {
    return theta.size() == 3 && (!theta[1].is_const() || theta[1].is_const(rank)) &&
           (!theta[2].is_const() || theta[2].is_const(rank + 1));
  };
  const bool open = may_have(2) && may_have(3);
  const auto is = [&](int64_t rank) {
    return may_have(rank) && (!open || (size.size() == 1 && size[0].is_const(rank + 2)));
  };
  const bool flat = is(2), solid = is(3);
  if (!flat && !solid)
    return invalid("theta has a wrong shape").expecting("[batch,2,3] or [batch,3,4]").but_found(shape_text(theta));
  const int64_t rank = flat ? 2 : 3;
  if (size.size() != 1 || !(size[0] == Dim(rank + 2)))
    return invalid("size has a wrong length")
        .expecting(format("[%lld]: batch, channels, %s", static_cast<long long>(rank) + 2,
                          flat ? "height, width" : "depth, height, width"))
        .but_found(shape_text(size));
  PERI_ASSIGN(const Shape image, shape_from(c, 1, "grid"));
  Shape y = {theta[0]};
  y.insert(y.end(), image.begin() + 2, image.end());
  y.push_back(Dim(rank));
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

double place(int64_t at, int64_t extent, bool align) {
  if (align) return extent == 1 ? -1 : -1 + 2.0 * static_cast<double>(at) / static_cast<double>(extent - 1);
  return -1 + (2.0 * static_cast<double>(at) + 1) / static_cast<double>(extent);
}

Status reference(RefCall& call) {
  const RefTensor &theta = *call.in[0], &size = *call.in[1];
  RefTensor& y = call.out[0];
  const int64_t rank = theta.dims[1];
  std::vector<int64_t> dims = {theta.dims[0]};
  for (int64_t d = 0; d < rank; ++d) dims.push_back(size.i[static_cast<size_t>(d + 2)]);
  dims.push_back(rank);
  if (size.i[0] != theta.dims[0])
    return invalid("size names another batch than theta")
        .expecting(std::to_string(theta.dims[0]))
        .but_found(std::to_string(size.i[0]));
  if (y.dims != dims) PERI_TRY(resize(y, dims));
  y.radius.resize(y.f.size());
  const bool align = call.node.i("align_corners", 0) != 0;
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    int64_t rest = p / rank;
    double at[4] = {0, 0, 0, 1};  // x, y, z: the last axis of the image first
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t extent = dims[static_cast<size_t>(rank - d)];
      at[d] = place(rest % extent, extent, align);
      rest /= extent;
    }
    at[rank] = 1;
    Near v;
    double magnitude = 0;
    for (int64_t k = 0; k <= rank; ++k) {
      const Near t = element(&theta, (rest * rank + p % rank) * (rank + 1) + k, 0);
      v.v += t.v * at[k];
      v.r += t.r * std::fabs(at[k]);
      magnitude += std::fabs(t.v);  // a place errs absolutely, as it is a difference from 1
    }
    v.r += 8 * call.u * magnitude;
    store(y, p, v);
  }
  return Ok{};
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  c.flops = 8 * elements_of(*node.out());
  return c;
}

}  // namespace

extern const Entry affine_grid_entry;
const Entry affine_grid_entry{{
    {.name = "affine_grid",
     .onnx = "AffineGrid",
     .versions = {20},
     .inputs = {{"theta", kFloats}, {"size", types({DType::kI64})}},
     .outputs = {{"grid"}},
     .attrs = {{"align_corners", AttrKind::kInt, false, "0"}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .samples =
         {"graph { input t: f32[2,2,3]; const s: i64[4] = [2, 3, 4, 5]; y = affine_grid(t, s); output y }",
          "graph { input t: f32[1,3,4]; const s: i64[5] = [1, 1, 2, 3, 4]; y = affine_grid(t, s) {align_corners=1}; "
          "output y }",
          "graph { input t: f16[1,2,3]; const s: i64[4] = [1, 1, 1, 3]; y = affine_grid(t, s) {align_corners=1}; "
          "output y }"}},
}};
}  // namespace peri::ops
