// The products for avx512.
#include <cstdint>
#define PERI_ISA avx512
namespace peri::kernels::cpu::typed::PERI_ISA {
namespace {
constexpr int64_t kVectorBytes = 64;
}
}  // namespace peri::kernels::cpu::typed::PERI_ISA
#include "kernels/cpu/typed/products_body.hpp"
