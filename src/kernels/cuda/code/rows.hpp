// What kernels share in which a block of threads works on one row: the text of sums and maxima over a block.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// PERI_T and peri_block_sum(v, s), peri_block_max(v, s), peri_block_min(v, s): of all threads, given to all; `s` is
// shared memory of PERI_T floats. The order is fixed.
std::string block_text(int threads);
// Threads for rows of so many elements.
int row_threads(int64_t elements);

// A value's dims as outer, axis and inner extents around the axes [first, last).
struct Around {
  int64_t outer = 1, axis = 1, inner = 1;
};
Around around(const std::vector<int64_t>& dims, size_t first, size_t last);

// Lines of a dense tensor, each over all places of the axes `along`, whichever they are.
struct Lines {
  int64_t lines = 1, length = 1;
  // peri_line(PERI_INDEX line), where one begins, and peri_step(PERI_INDEX k), how far element k lies behind that.
  std::string text;
};
Lines lines_of(const std::vector<int64_t>& dims, const std::vector<bool>& along, Signature* signature);

}  // namespace peri::kernels::cuda
