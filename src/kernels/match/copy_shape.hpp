// A strided copy as data, for any device.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"

namespace peri::kernels {

// to[to_offset + sum c[d] * to_strides[d]] = from[from_offset + sum c[d] * from_strides[d]] for all coordinates c. All
// positions must lie within the sizes (in elements). Strides of from may be 0 or negative; strides of to must reach
// each position once.
struct CopyShape {
  int element_bytes = 4;  // 1, 2, 4, 8 or 16
  std::vector<int64_t> dims;
  std::vector<int64_t> from_strides, to_strides;
  int64_t from_offset = 0, to_offset = 0;
  int64_t from_size = 0, to_size = 0;
};

// The number of elements, which may be 0; an error unless the sizes are consistent and all positions within them.
Result<int64_t> check_copy(const CopyShape& shape);

// Dense [dims] to dense, with output dim d taken from input dim perm[d]. An error unless perm is a permutation.
Result<CopyShape> transpose_shape(int element_bytes, const std::vector<int64_t>& dims,
                                  const std::vector<int64_t>& perm);
// A dense part of size `part` copied into a dense whole at `start`: one input of a concat.
Result<CopyShape> place_shape(int element_bytes, const std::vector<int64_t>& whole, const std::vector<int64_t>& part,
                              const std::vector<int64_t>& start);
// out[c] = in[start + c * step], dense both: a slice. Steps may be negative; `count` is the output's dims.
Result<CopyShape> slice_shape(int element_bytes, const std::vector<int64_t>& dims, const std::vector<int64_t>& start,
                              const std::vector<int64_t>& step, const std::vector<int64_t>& count);

}  // namespace peri::kernels
