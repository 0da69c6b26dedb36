// Pooling and resize loops for avx2.
#define PERI_ISA avx2
#include "kernels/cpu/simd/vec_avx2.hpp"
//
#include "kernels/cpu/pool/loops_body.hpp"
