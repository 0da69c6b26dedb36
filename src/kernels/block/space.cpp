// Strides of broadcast inputs.
#include "kernels/block/space.hpp"

#include <algorithm>

namespace peri::kernels::block {

Result<std::vector<int64_t>> broadcast_strides(const std::vector<int64_t>& shape, const std::vector<int64_t>& dims) {
  if (shape.size() > dims.size())
    return invalid("block plan: an input of rank %zu in a space of rank %zu", shape.size(), dims.size());
  std::vector<int64_t> strides(dims.size(), 0);
  int64_t step = 1;
  for (size_t k = 0; k < shape.size(); ++k) {
    const size_t from = shape.size() - 1 - k, to = dims.size() - 1 - k;
    if (shape[from] != 1 && shape[from] != dims[to])
      return invalid("block plan: a dim of %lld does not broadcast to %lld", static_cast<long long>(shape[from]),
                     static_cast<long long>(dims[to]));
    if (shape[from] != 1) strides[to] = step;
    if (__builtin_mul_overflow(step, std::max<int64_t>(shape[from], 1), &step))
      return invalid("block plan: shape too large");
  }
  return strides;
}

}  // namespace peri::kernels::block
