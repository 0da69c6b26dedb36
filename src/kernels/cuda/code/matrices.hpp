// The operands of a matrix product in batches, as functions of a tiled product (product.hpp).
#pragma once

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// Elements of a batch's matrix from `base` on, in the order of memory.
struct MatrixOperand {
  std::string name, at;  // of its parameter; "m * PERI_K + k"
  std::string base;      // text of a function's body
  DType dtype = DType::kF32;
  std::string less = {};  // what is taken from each element, after a sign: " - (int)p3[0]"
  std::string element() const { return loaded(dtype, name + "[base + " + at + "]") + less; }
};
// Statements that add to `at` the place of an operand's matrix, by the coordinates of `rest`, the index in `batch`.
std::string batch_steps(const std::vector<int64_t>& dims, const std::vector<int64_t>& batch, int64_t matrix,
                        Signature* signature);
// The body of a function that gives the place of an operand's matrix by the coordinates of `batch`; `matrix`: elements.
std::string batch_offset(const std::vector<int64_t>& dims, const std::vector<int64_t>& batch, int64_t matrix,
                         Signature* signature);
// Of Product::functions all that read, and peri_place; peri_a and peri_b give a `number`.
std::string matrices_text(const std::string& number, const MatrixOperand& a, const MatrixOperand& b);

}  // namespace peri::kernels::cuda
