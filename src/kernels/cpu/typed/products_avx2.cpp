// The products for avx2.
#include <cstdint>
#define PERI_ISA avx2
namespace peri::kernels::cpu::typed::PERI_ISA {
namespace {
constexpr int64_t kVectorBytes = 32;
}
}  // namespace peri::kernels::cpu::typed::PERI_ISA
#include "kernels/cpu/typed/products_body.hpp"
