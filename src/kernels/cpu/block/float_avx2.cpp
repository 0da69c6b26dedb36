// The float loops, chains and reductions of block code for avx2.
#define PERI_ISA avx2
#include "kernels/cpu/simd/vec_avx2.hpp"
//
#include "kernels/cpu/block/float_body.hpp"
//
#include "kernels/cpu/block/chain_body.hpp"
//
#include "kernels/cpu/block/reduce_body.hpp"
