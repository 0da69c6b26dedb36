// Constants between float32 and the 16-bit types: what fits exactly, what saturates.
#pragma once

#include "base/tensor.hpp"

namespace peri::passes {

// float16 and bfloat16.
inline bool is_narrow(DType t) { return t == DType::kF16 || t == DType::kBF16; }

// Whether every element of a float32 tensor is a number of `type`, or an infinity. REQUIRES: is_narrow(type).
bool holds_exactly(const Tensor& t, DType type);
// A float32 tensor in `type`: nearest even; finite elements beyond its largest number become that. Errors: kMemory.
Result<Tensor> saturated(const Tensor& t, DType type);
// A tensor of a narrow type in float32, exactly. Errors: kMemory.
Result<Tensor> in_float32(const Tensor& t);

}  // namespace peri::passes
