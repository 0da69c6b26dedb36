// The joins for avx512.
#define PERI_ISA avx512
#include "kernels/cpu/typed/joins_body.hpp"
