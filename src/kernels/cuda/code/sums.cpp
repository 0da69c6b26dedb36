// The same names for both types, so that kernels do not differ.
#include "kernels/cuda/code/sums.hpp"

namespace peri::kernels::cuda {

namespace {
constexpr std::string_view kFloats = R"(typedef float peri_sum_type;
PERI_DEVICE float peri_fma(float a, float b, float c) { return fmaf(a, b, c); }
PERI_DEVICE float peri_dot_8(const float* a, const float* b, float sum) {
#pragma unroll
  for (int e = 0; e < 8; ++e) sum = fmaf(a[e], b[e], sum);
  return sum;
}
PERI_DEVICE float peri_root(float v) { return sqrtf(v); }
PERI_DEVICE float peri_log(float v) { return logf(v); }
PERI_DEVICE float peri_exp_less(float x, float high) { return expf(x - high); }
)";
// peri_exp_less(): what x - high loses when it is rounded, exactly (Knuth, The Art of Computer Programming 2, 4.2.2,
// theorem B), corrects the exponential of the rest; not where that is 0, infinite or NaN, since infinities may have
// been subtracted.
constexpr std::string_view kDoubles = R"(typedef double peri_sum_type;
PERI_DEVICE double peri_fma(double a, double b, double c) { return fma(a, b, c); }
PERI_DEVICE double peri_dot_8(const float* a, const float* b, double sum) {
  double of[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) of[e] = fma((double)a[e], (double)b[e], (double)a[e + 4] * (double)b[e + 4]);
  return sum + ((of[0] + of[1]) + (of[2] + of[3]));
}
PERI_DEVICE double peri_root(double v) { return sqrt(v); }
PERI_DEVICE double peri_log(double v) { return log(v); }
PERI_DEVICE float peri_exp_less(float x, float high) {
  const float d = x - high, part = d - x, lost = (x - (d - part)) - (high + part), e = expf(d);
  return e > 0.0f && e < peri_inf() ? fmaf(e, lost, e) : e;
}
)";
}  // namespace

std::string sums_text(DType dtype, const GpuLimits& gpu) {
  return std::string(dtype == DType::kF32 && gpu.doubles ? kDoubles : kFloats);
}

DType summed_type(const ir::Node& product) {
  for (const size_t k : {size_t{0}, size_t{1}})
    if (const ir::Value* const v = product.in(k); v && v->type.dtype != DType::kF32) return v->type.dtype;
  return DType::kF32;
}

}  // namespace peri::kernels::cuda
