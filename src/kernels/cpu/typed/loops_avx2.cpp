// The loops for avx2.
#define PERI_ISA avx2
#include "kernels/cpu/typed/loops_body.hpp"
