// The loops for avx2.
#define PERI_ISA avx2
#include "kernels/cpu/simd/vec_avx2.hpp"
//
#include "kernels/cpu/quantize/loops_body.hpp"
