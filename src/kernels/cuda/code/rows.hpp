// Shared by kernels in which a block of threads processes one row: source text of sums and maxima over a block.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// PERI_T and peri_block_sum(v, s), peri_block_max(v, s), peri_block_min(v, s): reduce over all threads, each of which
// gets the result; `s` is shared memory of 32 elements: float, or double for sums. The order is fixed.
std::string block_text(int threads);
// Threads per block for rows of this many elements.
int row_threads(int64_t elements);

// A value's dims as outer, axis and inner extents around the axes [first, last).
struct Around {
  int64_t outer = 1, axis = 1, inner = 1;
};
Around around(const std::vector<int64_t>& dims, size_t first, size_t last);

// Lines of a dense tensor, each over all positions of the axes `along`, which may be any.
struct Lines {
  int64_t lines = 1, length = 1;
  // peri_line(PERI_INDEX line), the start of a line, and peri_step(PERI_INDEX k), the distance of element k from it.
  std::string text;
};
Lines lines_of(const std::vector<int64_t>& dims, const std::vector<bool>& along, Signature* signature);

}  // namespace peri::kernels::cuda
