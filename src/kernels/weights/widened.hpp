// Weights stored in 16 bits become float32, exactly, as they are packed or loaded.
#pragma once

#include "kernels/entry.hpp"

namespace peri::kernels {

// float16 and bfloat16: the types a weight may be stored in where a region states float32.
inline bool is_narrow_float(DType t) { return t == DType::kF16 || t == DType::kBF16; }

// The elements of `t` in float32. REQUIRES: is_narrow_float(t.dtype()); room for t.numel().
void widen(const Tensor& t, const Target& target, float* to);
// The same in a tensor of its own. Errors: kMemory.
Result<Tensor> widened(const Tensor& t, const Target& target);

}  // namespace peri::kernels
