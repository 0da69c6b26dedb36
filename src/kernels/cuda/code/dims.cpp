// Products and bounds.
#include "kernels/cuda/code/dims.hpp"

namespace peri::kernels::cuda {

int64_t elements_of(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

int64_t numel_of(const ir::Value& v) { return elements_of(dims_of(v)); }

Result<size_t> axis_within(int64_t axis, size_t rank) {
  const auto end = static_cast<int64_t>(rank);
  if (axis < -end || axis >= end) return refused("a bad axis").but_found(std::to_string(axis));
  return static_cast<size_t>(axis < 0 ? axis + end : axis);
}

}  // namespace peri::kernels::cuda
