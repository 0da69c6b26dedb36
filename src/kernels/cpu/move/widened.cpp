// The vector loops of the target's instruction set, or one element at a time without one.
#include "kernels/cpu/move/widened.hpp"

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd/arrays.hpp"

namespace peri::kernels::cpu {

void widen(const Tensor& t, const Target& target, float* to) {
  PERI_CHECK(is_narrow_float(t.dtype()), "what is widened is float16 or bfloat16");
  const auto* from = t.as<uint16_t>().data();
  const bool half = t.dtype() == DType::kF16;
  const auto isa = best_isa(target);
  if (isa.ok() && *isa == Isa::kAvx512) {
    (half ? simd::avx512::from_f16 : simd::avx512::from_bf16)(from, to, t.numel());
  } else if (isa.ok()) {
    (half ? simd::avx2::from_f16 : simd::avx2::from_bf16)(from, to, t.numel());
  } else {
    for (int64_t k = 0; k < t.numel(); ++k) to[k] = half ? f16_to_f32(from[k]) : bf16_to_f32(from[k]);
  }
}

Result<Tensor> widened(const Tensor& t, const Target& target) {
  PERI_ASSIGN(Tensor out, Tensor::uninitialized(DType::kF32, t.dims()));
  widen(t, target, out.mutable_as<float>());
  return out;
}

}  // namespace peri::kernels::cpu
