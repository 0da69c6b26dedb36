// Weights stored in 16 bits are converted to float32, exactly, when they are packed or loaded.
#pragma once

#include "kernels/entry.hpp"

namespace peri::kernels {

// float16 and bfloat16: the storage types of a weight that a region has as float32.
inline bool is_narrow_float(DType t) { return t == DType::kF16 || t == DType::kBF16; }

// Writes the elements of `t` as float32. REQUIRES: is_narrow_float(t.dtype()); t.numel() floats at `to`.
void widen(const Tensor& t, const Target& target, float* to);
// The same into a new tensor. Errors: kMemory.
Result<Tensor> widened(const Tensor& t, const Target& target);

}  // namespace peri::kernels
