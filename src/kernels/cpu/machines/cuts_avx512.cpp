// cuts.hpp for avx512.
#define PERI_ISA avx512
#include "kernels/cpu/simd/vec_avx512.hpp"
//
#include "kernels/cpu/machines/cuts_body.hpp"
