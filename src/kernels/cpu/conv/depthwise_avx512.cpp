// The depthwise tiles for this Isa; compiled with its flags and run only if isa.hpp selects it.
#include "kernels/cpu/conv/depthwise_body.hpp"
#include "kernels/cpu/simd/vec_avx512.hpp"

namespace peri::kernels::cpu {

constexpr DepthwiseTable kTable = depthwise_body::make_table<simd::avx512::F32>();
const DepthwiseTable depthwise_table_avx512 = kTable;

}  // namespace peri::kernels::cpu
