// AveragePool: the mean of each window. Padding counts as zeros with count_include_pad, else it is excluded; the part
// of a ceil_mode window beyond the padded input never counts.
#include <algorithm>
#include <cmath>

#include "ops/reference/dense.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/pool.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {
namespace {

// Elements of the window at `o` within the padded input, in no more work for a larger window.
int64_t padded_taps(const PoolSizes& s, const std::vector<int64_t>& o) {
  int64_t n = 1;
  for (size_t d = 0; d < o.size(); ++d) {
    const int64_t room = s.in[d] + s.window.pad_end[d] - window_at(s.window, d, o[d], 0);
    n *= room <= 0 ? 0 : std::min(s.window.kernel[d], (room - 1) / s.window.dilation[d] + 1);
  }
  return n;
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  if (y.numel() == 0) return Ok{};
  const PoolSizes s(call.node);
  const bool include = call.node.i("count_include_pad") != 0;
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> o(s.out.size());
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = call.position(n), base = at / s.y_image * s.x_image;
      unravel(at % s.y_image, s.out, o);
      ProductSum sum;
      int64_t taps = 0;
      each_tap(s.window, s.in, o.data(), [&](int64_t offset, int64_t) {
        sum.add_term(x.f[static_cast<size_t>(base + offset)], x.r(base + offset));
        ++taps;
      });
      const double count = static_cast<double>(std::max<int64_t>(include ? padded_taps(s, o) : taps, 1));
      y.f[static_cast<size_t>(at)] = sum.value / count;
      y.radius[static_cast<size_t>(at)] = sum.radius(call.u, taps + 1) / count;
    }
  });
  settle_radii(y, call.positions);
  return Ok{};
}

}  // namespace

extern const Entry average_pool_entry;
const Entry average_pool_entry{{
    {.name = "average_pool",
     .onnx = "AveragePool",
     .versions = {7, 10, 11, 19, 22},
     .inputs = {{"x", kFloats}},
     .outputs = {{"y"}},
     .attrs = {{"auto_pad", AttrKind::kString, false, "NOTSET"},
               {"ceil_mode", AttrKind::kInt, false, "0"},
               {"count_include_pad", AttrKind::kInt, false, "0"},
               {"dilations", AttrKind::kInts, false, "1 each"},
               {"kernel_shape", AttrKind::kInts, true},
               {"pads", AttrKind::kInts, false, "0 each"},
               {"strides", AttrKind::kInts, false, "1 each"}},
     .infer = infer_pool,
     .reference = reference,
     .pull = pull_pool,
     .cost = cost_pool,
     .anchor = true,
     .keeps_range = true,
     .any_size = any_size_of_batch,
     .samples = {"graph { input x: f32[2,3,12,12]; y = average_pool(x) {kernel_shape=[3,3], pads=[1,1,1,1], "
                 "strides=[2,2]}; output y }",
                 "graph { input x: f32[1,2,7,9]; y = average_pool(x) {ceil_mode=1, count_include_pad=1, "
                 "kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]}; output y }",
                 "graph { input x: f32[1,2,7,8]; y = average_pool(x) {ceil_mode=1, kernel_shape=[3,3], strides=[2,2]}; "
                 "output y }",
                 "graph { input x: f32[1,2,8,8]; y = average_pool(x) {count_include_pad=1, dilations=[2,2], "
                 "kernel_shape=[2,2], pads=[1,1,1,1]}; output y }",
                 "graph { input x: f32[2,3,11]; y = average_pool(x) {auto_pad=\"SAME_LOWER\", kernel_shape=[4], "
                 "strides=[3]}; output y }",
                 "graph { input x: f32[1,1,4,5,6]; y = average_pool(x) {kernel_shape=[2,3,2]}; output y }",
                 "graph { input x: f16[1,2,6,6]; y = average_pool(x) {kernel_shape=[2,2]}; output y }",
                 "graph { input x: f32[0,2,6,6]; y = average_pool(x) {kernel_shape=[2,2]}; output y }",
                 "graph { input x: f32[1,2,6,1]; y = average_pool(x) {kernel_shape=[2,2]}; output y }"}},
}};
}  // namespace peri::ops
