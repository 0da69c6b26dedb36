// The loops of a plan: those of the instruction set, and the conversions between memory and registers.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/cpu/block/loops.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu::block {

const Kernels& kernels(Isa isa);

// Null where no conversion is needed (f32, i32, i64, bool).
Convert load_convert(Isa isa, DType from);
Convert store_convert(Isa isa, DType to);

// The result of a reduction over `count` elements.
float reduce_finish(Op op, const Partial& state, int64_t count);

}  // namespace peri::kernels::cpu::block
