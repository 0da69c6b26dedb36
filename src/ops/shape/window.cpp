// Reading and resolving the window attributes of convolution and pooling.
#include "ops/shape/window.hpp"

#include <algorithm>

#include "ops/shape/broadcast.hpp"

namespace peri::ops {

int64_t Window::taps() const {
  int64_t n = 1;
  for (int64_t k : kernel) n *= k;
  return n;
}

namespace {
Result<std::vector<int64_t>> per_axis(const ir::Node& node, std::string_view name, size_t count, int64_t fallback,
                                      int64_t least) {
  std::vector<int64_t> v = node.ints(name);
  if (!node.has(name)) v.assign(count, fallback);
  const std::string key(name);
  if (v.size() != count)
    return invalid("%s has a wrong number of elements", key.c_str())
        .expecting(std::to_string(count))
        .but_found(std::to_string(v.size()));
  for (int64_t x : v)
    if (x < least)
      return invalid("%s is out of range", key.c_str())
          .expecting("values >= " + std::to_string(least))
          .but_found(std::to_string(x));
  return v;
}
}  // namespace

Result<WindowSpec> window_spec(const ir::Node& node, std::vector<int64_t> kernel) {
  WindowSpec s;
  const size_t rank = kernel.size();
  for (int64_t k : kernel)
    if (k < 1) return invalid("kernel_shape is out of range").expecting("values >= 1").but_found(std::to_string(k));
  PERI_TRY(checked_numel(kernel));
  s.window.kernel = std::move(kernel);
  PERI_ASSIGN(s.window.stride, per_axis(node, "strides", rank, 1, 1));
  PERI_ASSIGN(s.window.dilation, per_axis(node, "dilations", rank, 1, 1));
  PERI_ASSIGN(const std::vector<int64_t> pads, per_axis(node, "pads", 2 * rank, 0, 0));
  const std::string mode = node.s("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) {
    s.auto_pad = AutoPad::kNotSet;
  } else if (mode == "VALID") {
    s.auto_pad = AutoPad::kValid;
  } else if (mode == "SAME_UPPER") {
    s.auto_pad = AutoPad::kSameUpper;
  } else if (mode == "SAME_LOWER") {
    s.auto_pad = AutoPad::kSameLower;
  } else {
    return invalid("auto_pad is unknown").expecting("NOTSET, VALID, SAME_UPPER or SAME_LOWER").but_found(mode);
  }
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
  s.window.pad_begin.assign(pads.begin(), middle);
  s.window.pad_end.assign(middle, pads.end());
  if (s.auto_pad != AutoPad::kNotSet) {
    s.window.pad_begin.assign(rank, 0);
    s.window.pad_end.assign(rank, 0);
  }
  constexpr int64_t kMaxStep = int64_t{1} << 24;  // keeps index arithmetic far from wrapping, and runs finite
  for (size_t d = 0; d < rank; ++d) {
    PERI_ASSIGN(const int64_t reach,
                checked_mul(s.window.kernel[d], s.window.dilation[d], "kernel_shape times dilations"));
    for (int64_t v : {reach, s.window.stride[d], s.window.pad_begin[d], s.window.pad_end[d]})
      if (v > kMaxStep)
        return invalid("a window attribute is out of range").expecting("values <= 2^24").but_found(std::to_string(v));
  }
  return s;
}

Result<Dim> WindowSpec::extent(size_t axis, const Dim& in, bool ceil, const Dim& reach) const {
  const Dim stride(window.stride[axis]);
  if (auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower) return ceildiv(in, stride);
  const Dim padded = in + window.pad_begin[axis] + window.pad_end[axis], slack = padded - reach;
  // Rounded up, a first window that begins within the input may reach beyond its end.
  const int64_t least = ceil ? 1 - window.stride[axis] : 0;
  if (slack.is_const() && slack.value() < least)
    return invalid("the window is larger than the padded input")
        .expecting(format("at least %s elements along spatial axis %zu", (reach + least).text().c_str(), axis))
        .but_found(padded.text())
        .advise("give a larger input, or export the model with a smaller window or more padding");
  if (!ceil) return floordiv(slack, stride) + 1;
  return min(ceildiv(slack, stride) + 1, ceildiv(in + window.pad_begin[axis], stride));
}

Window WindowSpec::resolve(std::span<const int64_t> in, std::span<const int64_t> out) const {
  Window w = window;
  if (auto_pad != AutoPad::kSameUpper && auto_pad != AutoPad::kSameLower) return w;
  for (size_t d = 0; d < w.rank(); ++d) {
    const int64_t total = std::max<int64_t>((out[d] - 1) * w.stride[d] + w.reach(d) - in[d], 0);
    const int64_t small = total / 2;
    w.pad_begin[d] = auto_pad == AutoPad::kSameUpper ? small : total - small;
    w.pad_end[d] = total - w.pad_begin[d];
  }
  return w;
}

Window window_of(const ir::Node& node) {
  const std::vector<int64_t> in = concrete(*node.in(0)), out = concrete(*node.out());
  const std::span<const int64_t> spatial_in = std::span(in).subspan(2);
  std::vector<int64_t> kernel = node.ints("kernel_shape");
  if (!node.has("kernel_shape")) {
    const std::vector<int64_t> w = concrete(*node.in(1));
    kernel.assign(w.begin() + 2, w.end());
  }
  Result<WindowSpec> spec = window_spec(node, std::move(kernel));
  PERI_CHECK(spec.ok(), "window_of needs an inferred node");
  return spec->resolve(spatial_in, std::span(out).subspan(2));
}

int64_t taps_inside(const Window& w, size_t axis, int64_t in, int64_t out) {
  int64_t count = 0;
  for (int64_t k = 0; k < w.kernel[axis]; ++k) {
    const int64_t at = k * w.dilation[axis] - w.pad_begin[axis], stride = w.stride[axis];  // input of output 0
    const int64_t first = at >= 0 ? 0 : (-at + stride - 1) / stride, last = at >= in ? -1 : (in - 1 - at) / stride;
    count += std::max<int64_t>(0, std::min(last, out - 1) - first + 1);
  }
  return count;
}

}  // namespace peri::ops
