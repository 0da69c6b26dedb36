// The loops for avx512.
#define PERI_ISA avx512
#include "kernels/cpu/integer/loops_body.hpp"
