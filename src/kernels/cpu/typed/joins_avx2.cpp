// The joins for avx2.
#define PERI_ISA avx2
#include "kernels/cpu/typed/joins_body.hpp"
