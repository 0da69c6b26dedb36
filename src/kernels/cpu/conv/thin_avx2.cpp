// Rows of thin convolutions for avx2.
#define PERI_ISA avx2
#include "kernels/cpu/simd/vec_avx2.hpp"
//
#include "kernels/cpu/conv/thin_body.hpp"
