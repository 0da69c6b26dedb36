// Reductions over axes: the input elements that an output element reduces.
#pragma once

#include "ops/reference/elements.hpp"

namespace peri::ops {

// The axes of a reduce op from its optional input 1, sorted. All axes if there are none (none at all with
// noop_with_empty_axes). Reads the constant content.
Result<std::vector<int64_t>> reduced_axes(const ir::Node& node, size_t rank);
// Shape of the output: reduced axes are 1 or removed.
Shape reduced_shape(const Shape& in, std::span<const int64_t> axes, bool keepdims);

// For concrete dims: base(p) is the input position of the first element that output p reduces, offsets are the
// distances to all of them.
class Reduction {
 public:
  Reduction(const std::vector<int64_t>& in, std::span<const int64_t> axes);
  int64_t base(int64_t p) const { return broadcast_index(p, kept_dims_, kept_strides_); }
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t count() const { return static_cast<int64_t>(offsets_.size()); }

 private:
  std::vector<int64_t> kept_dims_, kept_strides_, offsets_;
};

// Input positions of input 0 that the given output positions reduce; other inputs whole.
bool pull_reduced(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed);
// Positions of whole lines of input 0 along `axis` for the given output positions (softmax, cum_sum).
void pull_lines(const std::vector<int64_t>& dims, int64_t axis, std::span<const int64_t> positions,
                std::vector<int64_t>* needed);

}  // namespace peri::ops
