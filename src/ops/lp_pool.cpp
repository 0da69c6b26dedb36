// LpPool: the p-norm of each window; padding is zero.
#include "ops/reference/lp.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/pool.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  if (c.node.i("p", 2) < 1)
    return invalid("p is out of range").expecting(">= 1").but_found(std::to_string(c.node.i("p", 2)));
  return infer_pool(c);
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  if (call.out[0].numel() == 0) return Ok{};
  const PoolSizes s(call.node);
  const int64_t p = call.node.i("p", 2);
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> o(s.out.size());
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = call.position(n), base = at / s.y_image * s.x_image;
      unravel(at % s.y_image, s.out, o);
      LpSum sum(p, call.u);
      each_tap(s.window, s.in, o.data(),
               [&](int64_t offset, int64_t) { sum.add(x.f[static_cast<size_t>(base + offset)], x.r(base + offset)); });
      store(call.out[0], at, sum.root());
    }
  });
  return Ok{};
}

}  // namespace

extern const Entry lp_pool_entry;
const Entry lp_pool_entry{{
    {.name = "lp_pool",
     .onnx = "LpPool",
     .versions = {2, 11, 18, 22},
     .inputs = {{"x", kFloats}},
     .outputs = {{"y"}},
     .attrs = {{"auto_pad", AttrKind::kString, false, "NOTSET"},
               {"ceil_mode", AttrKind::kInt, false, "0"},
               {"dilations", AttrKind::kInts, false, "1 each"},
               {"kernel_shape", AttrKind::kInts, true},
               {"p", AttrKind::kInt, false, "2"},
               {"pads", AttrKind::kInts, false, "0 each"},
               {"strides", AttrKind::kInts, false, "1 each"}},
     .infer = infer,
     .reference = reference,
     .pull = pull_pool,
     .cost = cost_pool,
     .samples = {"graph { input x: f32[2,3,9,9]; y = lp_pool(x) {kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]}; "
                 "output y }",
                 "graph { input x: f32[1,2,7,9]; y = lp_pool(x) {ceil_mode=1, dilations=[2,1], kernel_shape=[2,3], "
                 "p=3, strides=[2,2]}; output y }",
                 "graph { input x: f32[2,3,11]; y = lp_pool(x) {auto_pad=\"SAME_UPPER\", kernel_shape=[4], p=1, "
                 "strides=[3]}; output y }",
                 "graph { input x: f32[1,1,4,5,6]; y = lp_pool(x) {kernel_shape=[2,3,2]}; output y }",
                 "graph { input x: f32[0,1,4,5]; y = lp_pool(x) {kernel_shape=[2,3]}; output y }"}},
}};
}  // namespace peri::ops
