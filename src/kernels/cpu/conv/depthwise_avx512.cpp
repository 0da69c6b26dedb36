// The depthwise tiles for this Isa; compiled with its flags and run only after isa.hpp said yes.
#include "kernels/cpu/conv/depthwise_body.hpp"
#include "kernels/cpu/simd/vec_avx512.hpp"

namespace peri::kernels::cpu {

const DepthwiseTable depthwise_table_avx512 = depthwise_body::kTable<simd::avx512::F32>;

}  // namespace peri::kernels::cpu
