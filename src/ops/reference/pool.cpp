// Shape inference and pulled positions of the pooling ops.
#include "ops/reference/pool.hpp"

#include <algorithm>

#include "ops/reference/cost.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

// Number of windows. One that is larger than its padded input has no place where the definition, rounded as it says,
// and ONNX Runtime both say so. Rounded down, they differ where the input lacks less than a stride.
Result<Dim> places_of(const WindowSpec& spec, size_t axis, const Dim& in, bool ceil) {
  const Dim slack = in + spec.window.pad_begin[axis] + spec.window.pad_end[axis] - spec.window.reach(axis);
  const int64_t stride = spec.window.stride[axis];
  Result<Dim> extent = spec.extent(axis, in, ceil);
  if (extent.ok() || !slack.is_const()) return extent;
  const bool by_pads = ceil && spec.auto_pad == AutoPad::kNotSet;  // kValid rounds up in a way of its own
  if (slack.value() <= -stride && slack.value() > (by_pads ? -2 * stride : -stride - 1)) return Dim(0);
  if (ceil || slack.value() <= -stride) return extent;
  Error refusal = extent.error();
  refusal.remedy =
      "give a larger input, or export the model with a smaller window, more padding or, for the one window that ONNX "
      "Runtime computes, ceil_mode=1";
  return refusal;
}

}  // namespace

Status infer_pool(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() < 3)
    return invalid("x has a wrong rank").expecting("[batch, channels, spatial...], rank >= 3").but_found(shape_text(x));
  std::vector<int64_t> kernel = c.node.ints("kernel_shape");
  if (kernel.size() != x.size() - 2)
    return invalid("kernel_shape has a wrong number of elements")
        .expecting(std::to_string(x.size() - 2))
        .but_found(std::to_string(kernel.size()));
  PERI_ASSIGN(const WindowSpec spec, window_spec(c.node, std::move(kernel)));
  Shape y = {x[0], x[1]};
  for (size_t d = 0; d + 2 < x.size(); ++d) {
    for (int64_t pad : {spec.window.pad_begin[d], spec.window.pad_end[d]})
      if (pad >= spec.window.reach(d))
        return invalid("a pad is not smaller than the window")
            .expecting("pads < " + std::to_string(spec.window.reach(d)))
            .but_found(std::to_string(pad))
            .advise("export the model with smaller pads, or with a Pad before the pooling");
    PERI_ASSIGN(Dim extent, places_of(spec, d, x[d + 2], c.node.i("ceil_mode") != 0));
    y.push_back(std::move(extent));
  }
  c.set(1, DType::kI64, y);
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

Status infer_global_pool(InferContext& c) {
  Shape y = c.shape(0);
  if (y.size() < 2)
    return invalid("x has a wrong rank").expecting("[batch, channels, spatial...], rank >= 2").but_found(shape_text(y));
  for (size_t d = 2; d < y.size(); ++d) y[d] = Dim(1);
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

PoolSizes::PoolSizes(const ir::Node& node) : window(window_of(node)) {
  const std::vector<int64_t> x = concrete(*node.in(0)), y = concrete(*node.out());
  in.assign(x.begin() + 2, x.end());
  out.assign(y.begin() + 2, y.end());
  images = x[0] * x[1];
  x_image = span_of(in, 0, in.size());
  y_image = span_of(out, 0, out.size());
}

bool pull_pool(const ir::Node& node, size_t, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const PoolSizes s(node);
  PositionSet set(s.images * s.x_image);
  std::vector<int64_t> o(s.out.size());
  for (int64_t p : positions) {
    unravel(p % s.y_image, s.out, o);
    each_tap(s.window, s.in, o.data(), [&](int64_t offset, int64_t) { set.add(p / s.y_image * s.x_image + offset); });
  }
  set.list(needed);
  return true;
}

bool pull_global_pool(const ir::Node& node, size_t, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const std::vector<int64_t> x = concrete(*node.in(0));
  const int64_t image = span_of(x, 2, x.size());
  needed->clear();
  for (int64_t p : positions)
    for (int64_t k = 0; k < image; ++k) needed->push_back(p * image + k);
  return true;
}

Cost cost_pool(const ir::Node& node) {
  Cost c = traffic_of(node);
  c.flops = elements_of(*node.out());
  const Shape& x = *node.in(0)->type.shape;
  const std::vector<int64_t> kernel = node.ints("kernel_shape");
  for (size_t k = 0; k < kernel.size(); ++k) {  // no window has more taps than the image: those in the padding are none
    const Dim& d = x[k + 2];
    c.flops *= static_cast<double>(d.is_const() ? std::min(kernel[k], std::max<int64_t>(d.value(), 1)) : kernel[k]);
  }
  return c;
}

}  // namespace peri::ops
