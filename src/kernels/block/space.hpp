// The iteration space of block code: the dims and the strides of each input. The same for every device.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"

namespace peri::kernels::block {

// The dims and, for each input, its strides. Outputs are dense in the space's order: whole elements over all dims,
// reductions over the leading ones (the last `reduced` dims are reduced).
struct Space {
  std::vector<int64_t> dims;                  // every one >= 0
  int reduced = 0;                            // trailing dims that reductions sum over
  std::vector<std::vector<int64_t>> strides;  // [input][dim], in elements, >= 0; 0 repeats the element
};

// Strides of a dense tensor of `shape` broadcast (numpy's rule, aligned right) to `dims`; an error if it does not fit.
Result<std::vector<int64_t>> broadcast_strides(const std::vector<int64_t>& shape, const std::vector<int64_t>& dims);

}  // namespace peri::kernels::block
