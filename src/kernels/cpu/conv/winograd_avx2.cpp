// The Winograd transforms for this Isa; compiled with its flags and run only if isa.hpp selects it.
#include "kernels/cpu/conv/winograd_body.hpp"
#include "kernels/cpu/simd/vec_avx2.hpp"

namespace peri::kernels::cpu {

constexpr WinogradTable kTable = winograd_body::kWinograd<simd::avx2::F32>;
const WinogradTable winograd_table_avx2 = kTable;

}  // namespace peri::kernels::cpu
