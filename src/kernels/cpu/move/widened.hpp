// Weights stored in 16 bits are converted to float32, exactly, when they are packed or loaded.
#pragma once

#include "kernels/entry.hpp"
#include "kernels/weights/narrow.hpp"

namespace peri::kernels::cpu {

// Writes the elements of `t` as float32. REQUIRES: is_narrow_float(t.dtype()); t.numel() floats at `to`.
void widen(const Tensor& t, const Target& target, float* to);
// The same into a new tensor. Errors: kMemory.
Result<Tensor> widened(const Tensor& t, const Target& target);

}  // namespace peri::kernels::cpu
