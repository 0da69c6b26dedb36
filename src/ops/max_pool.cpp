// MaxPool: the largest element of each window, and the index of its first occurrence (flat in x, row- or column-major
// within an image). A window with a NaN gives NaN and its index; a window of padding alone gives the type's lowest
// value and index -1.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/reference/parallel.hpp"
#include "ops/reference/pool.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {
namespace {

double lowest(DType t) {
  switch (t) {
    case DType::kF16: return -65504;
    case DType::kBF16: return -std::ldexp(2 - std::ldexp(1, -7), 127);
    case DType::kF32: return std::numeric_limits<float>::lowest();
    case DType::kI8: return -128;
    case DType::kU8: return 0;
    default: return std::numeric_limits<double>::lowest();
  }
}

// Flat position in x with the spatial axes of its image read in reverse order.
int64_t column_major(int64_t offset, const std::vector<int64_t>& dims) {
  int64_t at = 0, step = 1;
  std::vector<int64_t> k(dims.size());
  unravel(offset, dims, k);
  for (size_t d = 0; d < dims.size(); ++d) {
    at += k[d] * step;
    step *= dims[d];
  }
  return at;
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  if (y.numel() == 0) return Ok{};
  const PoolSizes s(call.node);
  const bool columns = call.node.i("storage_order") != 0, floating = y.floating();
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> o(s.out.size());
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = call.position(n), base = at / s.y_image * s.x_image;
      unravel(at % s.y_image, s.out, o);
      double best = lowest(x.dtype), high = -std::numeric_limits<double>::infinity();
      int64_t place = -1;
      each_tap(s.window, s.in, o.data(), [&](int64_t offset, int64_t) {
        const double v = floating ? x.f[static_cast<size_t>(base + offset)]
                                  : static_cast<double>(x.i[static_cast<size_t>(base + offset)]);
        if (place < 0 || v > best || (std::isnan(v) && !std::isnan(best))) {
          best = v;
          place = offset;
        }
        high = std::max(high, x.r(base + offset));
      });
      if (floating) {
        y.f[static_cast<size_t>(at)] = best;
        // Moving every element by at most its radius moves the maximum by at most the largest radius.
        y.radius[static_cast<size_t>(at)] = std::isfinite(best) && place >= 0 ? high : 0;
      } else {
        y.i[static_cast<size_t>(at)] = static_cast<int64_t>(best);
      }
      if (call.out.size() > 1)
        call.out[1].i[static_cast<size_t>(at)] = place < 0 ? -1 : base + (columns ? column_major(place, s.in) : place);
    }
  });
  return Ok{};
}

}  // namespace

extern const Entry max_pool_entry;
const Entry max_pool_entry{{
    {.name = "max_pool",
     .onnx = "MaxPool",
     .versions = {1, 8, 10, 11, 12, 22},
     .inputs = {{"x", kFloats | types({DType::kI8, DType::kU8})}},
     .outputs = {{"y"}, {"indices", types({DType::kI64}), true}},
     .attrs = {{"auto_pad", AttrKind::kString, false, "NOTSET"},
               {"ceil_mode", AttrKind::kInt, false, "0"},
               {"dilations", AttrKind::kInts, false, "1 each"},
               {"kernel_shape", AttrKind::kInts, true},
               {"pads", AttrKind::kInts, false, "0 each"},
               {"storage_order", AttrKind::kInt, false, "0"},
               {"strides", AttrKind::kInts, false, "1 each"}},
     .infer = infer_pool,
     .reference = reference,
     .pull = pull_pool,
     .cost = cost_pool,
     .anchor = true,
     .moves = true,
     .keeps_range = true,
     .any_size = any_size_of_batch,
     .samples =
         {"graph { input x: f32[2,3,12,12]; y = max_pool(x) {kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]}; "
          "output y }",
          "graph { input x: f32[1,2,7,9]; y = max_pool(x) {ceil_mode=1, kernel_shape=[2,3], strides=[2,2]}; output y }",
          "graph { input x: f32[1,2,8,8]; y = max_pool(x) {dilations=[2,3], kernel_shape=[2,2]}; output y }",
          "graph { input x: f32[1,2,5,6]; y, i = max_pool(x) {kernel_shape=[2,2], storage_order=1, strides=[2,2]}; "
          "output y; output i }",
          "graph { input x: f32[2,3,11]; y = max_pool(x) {auto_pad=\"SAME_UPPER\", kernel_shape=[4], strides=[3]}; "
          "output y }",
          "graph { input x: f32[1,1,4,5,6]; y = max_pool(x) {kernel_shape=[2,3,2]}; output y }",
          "graph { input x: i8[1,2,6,6]; y = max_pool(x) {kernel_shape=[3,3], pads=[1,1,1,1]}; output y }",
          "graph { input x: u8[1,2,6,6]; y = max_pool(x) {kernel_shape=[2,2]}; output y }",
          "graph { input x: f32[0,2,6,6]; y = max_pool(x) {kernel_shape=[2,2]}; output y }",
          "graph { input x: f32[1,2,6,1]; y, i = max_pool(x) {kernel_shape=[2,2]}; output y; output i }"}},
}};
}  // namespace peri::ops
