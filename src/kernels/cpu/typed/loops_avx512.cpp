// The loops for avx512.
#define PERI_ISA avx512
#include "kernels/cpu/typed/loops_body.hpp"
