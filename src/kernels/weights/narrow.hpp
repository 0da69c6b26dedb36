// Types in which weights are stored at half the size.
#pragma once

#include "base/dtype.hpp"

namespace peri::kernels {

// float16 and bfloat16: the storage types of a weight that a region has as float32.
inline bool is_narrow_float(DType t) { return t == DType::kF16 || t == DType::kBF16; }

}  // namespace peri::kernels
