// Sizes of a problem's values, and axes that count from either end.
#pragma once

#include <span>

#include "kernels/entry.hpp"

namespace peri::kernels::cuda {

// The product of the sizes; 1 for none.
int64_t elements_of(std::span<const int64_t> dims);
int64_t numel_of(const ir::Value& v);
// A negative axis counts from the end. Refuses one that is out of range for the rank.
Result<size_t> axis_within(int64_t axis, size_t rank);

// kRefused where an input or output has another layout.
Status check_row_major(const ir::Graph& g);

// The sizes of a matmul of matrices: a vector is a matrix of one row or one column, and where the right side has no
// batch, rows of all batches are rows of one product. x and w: the operands' sizes, batches in front.
struct MatmulDims {
  int64_t m = 1, k = 1, n = 1, batches = 1;
  std::vector<int64_t> x, w, batch;
};
// Errors: kRefused for a scalar operand.
Result<MatmulDims> matmul_dims(const ir::Node& matmul);
Result<MatmulDims> matmul_dims_of(std::vector<int64_t> left, std::vector<int64_t> right);

}  // namespace peri::kernels::cuda
