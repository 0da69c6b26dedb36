// The float loops, chains and reductions of block code for avx512.
#define PERI_ISA avx512
#include "kernels/cpu/simd/vec_avx512.hpp"
//
#include "kernels/cpu/block/float_body.hpp"
//
#include "kernels/cpu/block/chain_body.hpp"
//
#include "kernels/cpu/block/reduce_body.hpp"
