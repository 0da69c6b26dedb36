// Rows of thin convolutions for avx512.
#define PERI_ISA avx512
#include "kernels/cpu/simd/vec_avx512.hpp"
//
#include "kernels/cpu/conv/thin_body.hpp"
