// What the ISA files of block programs share: the loops that need no vector types (integers, bool, casts, f64), compiled
// once for the baseline.
#pragma once

#include "kernels/cpu/block/kernels.hpp"
#include "kernels/cpu/simd/arrays.hpp"

namespace peri::kernels::cpu::block {

// Integer and bool ops, casts, tests and selects; null where there is none or key.scalars is not 0.
Kernel find_plain(const Key& key);
// f64 and the narrow integers; null for the register types themselves.
Convert plain_load(DType from);
Convert plain_store(DType to);

}  // namespace peri::kernels::cpu::block
