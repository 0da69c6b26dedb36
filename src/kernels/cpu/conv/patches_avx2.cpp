// Panels of patches for avx2.
#define PERI_ISA avx2
#include "kernels/cpu/simd/vec_avx2.hpp"
//
#include "kernels/cpu/conv/patches_body.hpp"
