// Geometry of sliding windows (convolution and pooling): output extents over symbolic dims, pads resolved over numbers.
#pragma once

#include <algorithm>

#include "ops/entry.hpp"

namespace peri::ops {

// One element per axis, outermost first. Pads are resolved: auto_pad is gone.
struct Window {
  std::vector<int64_t> kernel, stride, dilation, pad_begin, pad_end;
  size_t rank() const { return kernel.size(); }
  int64_t taps() const;  // product of kernel
  int64_t reach(size_t axis) const {
    return (kernel[axis] - 1) * dilation[axis] + 1;
  }  // input elements that a window spans
};

enum class AutoPad { kNotSet, kValid, kSameUpper, kSameLower };
struct WindowSpec {
  Window window;  // pads as written; zero unless kNotSet
  AutoPad auto_pad = AutoPad::kNotSet;

  // Number of windows over `in` elements along `axis`. ceil: the last window may extend beyond the padded input, but
  // must begin inside the input or its leading pad. Error: a window larger than the padded input.
  Result<Dim> extent(size_t axis, const Dim& in, bool ceil) const { return extent(axis, in, ceil, window.reach(axis)); }
  // The same for windows that span a symbolic number of elements.
  Result<Dim> extent(size_t axis, const Dim& in, bool ceil, const Dim& reach) const;
  // Pads for concrete extents. SAME_UPPER adds the odd element at the end.
  Window resolve(std::span<const int64_t> in, std::span<const int64_t> out) const;
};
// Reads strides, dilations, pads, auto_pad; error for a wrong count, a value < 1 (pads: < 0), an unknown auto_pad.
Result<WindowSpec> window_spec(const ir::Node& node, std::vector<int64_t> kernel);

// Resolved window of a conv or pooling node with concrete shapes. REQUIRES a node that has been inferred.
Window window_of(const ir::Node& node);

// Input index of tap k of output o along an axis; may be outside [0, extent).
inline int64_t window_at(const Window& w, size_t axis, int64_t o, int64_t k) {
  return o * w.stride[axis] - w.pad_begin[axis] + k * w.dilation[axis];
}

// Number of pairs (output, tap) along an axis whose input element exists: out * kernel less those in the padding.
int64_t taps_inside(const Window& w, size_t axis, int64_t in, int64_t out);

// Calls f(input_offset, tap) for every tap of the window at output coordinates `o` that lies inside the input,
// row-major; `offset` is the flat position within one channel image of dims `in`. Taps in the padding are skipped at no
// cost.
template <class F>
void each_tap(const Window& w, std::span<const int64_t> in, const int64_t* o, F f) {
  const size_t rank = w.rank();
  int64_t first[32], last[32], k[32];
  for (size_t d = 0; d < rank; ++d) {
    const int64_t start = window_at(w, d, o[d], 0), end = in[d] - 1 - start;
    first[d] = k[d] = start >= 0 ? 0 : (-start + w.dilation[d] - 1) / w.dilation[d];
    last[d] = end < 0 ? -1 : std::min(w.kernel[d] - 1, end / w.dilation[d]);
    if (first[d] > last[d]) return;
  }
  while (true) {
    int64_t offset = 0, tap = 0;
    for (size_t d = 0; d < rank; ++d) {
      offset = offset * in[d] + window_at(w, d, o[d], k[d]);
      tap = tap * w.kernel[d] + k[d];
    }
    f(offset, tap);
    size_t d = rank;
    while (d > 0 && k[d - 1]++ == last[d - 1]) {
      k[d - 1] = first[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace peri::ops
