// Panels of patches for avx512.
#define PERI_ISA avx512
#include "kernels/cpu/simd/vec_avx512.hpp"
//
#include "kernels/cpu/conv/patches_body.hpp"
