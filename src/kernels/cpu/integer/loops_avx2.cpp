// The loops for avx2.
#define PERI_ISA avx2
#include "kernels/cpu/integer/loops_body.hpp"
