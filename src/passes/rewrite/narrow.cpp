// Bit operations on float32, float16 and bfloat16, fast enough for hundreds of millions of weights.
#include "passes/rewrite/narrow.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/tensor_work.hpp"
#include "ops/entry.hpp"

namespace peri::passes {

namespace {
constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7f800000;  // of float32
constexpr uint32_t kMinNormalHalf = 0x38800000;                 // 2^-14, the least normal float16
constexpr uint32_t kAboveHalf = 0x477ff000;                     // 65520, from which on float16 rounds to infinity
constexpr uint32_t kAboveBrain = 0x7f7f8000;                    // the same of bfloat16
constexpr uint16_t kMaxHalf = 0x7bff, kMaxBrain = 0x7f7f;

// Nearest even with `bits` of the significand left out. REQUIRES: no NaN.
uint32_t rounded(uint32_t magnitude, int bits) {
  return (magnitude + (uint32_t{1} << (bits - 1)) - 1 + (magnitude >> bits & 1)) >> bits;
}

uint16_t to_half(float v) {
  const uint32_t all = std::bit_cast<uint32_t>(v), magnitude = all & ~kSign;
  const uint16_t sign = static_cast<uint16_t>((all & kSign) >> 16);
  if (magnitude >= kAboveHalf && magnitude < kInfinity) return sign | kMaxHalf;
  if (magnitude < kMinNormalHalf || magnitude >= kInfinity) return f32_to_f16(v);
  return sign | static_cast<uint16_t>(rounded(magnitude, 13) - (uint32_t{112} << 10));
}

uint16_t to_brain(float v) {
  const uint32_t all = std::bit_cast<uint32_t>(v), magnitude = all & ~kSign;
  const uint16_t sign = static_cast<uint16_t>((all & kSign) >> 16);
  if (magnitude >= kAboveBrain && magnitude < kInfinity) return sign | kMaxBrain;
  if (magnitude >= kInfinity) return f32_to_bf16(v);
  return sign | static_cast<uint16_t>(rounded(magnitude, 16));
}

bool is_half(float v) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(v) & ~kSign;
  if (magnitude >= kMinNormalHalf && magnitude < kAboveHalf) return (magnitude & 0x1fff) == 0;
  if (magnitude == kInfinity) return true;
  return magnitude < kMinNormalHalf && std::ldexp(v, 24) == std::trunc(std::ldexp(v, 24));
}
bool is_brain(float v) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(v) & ~kSign;
  return magnitude <= kInfinity && (magnitude & 0xffff) == 0;
}
}  // namespace

bool holds_exactly(const Tensor& t, DType type) {
  const auto values = t.as<float>();
  return std::all_of(values.begin(), values.end(), type == DType::kF16 ? is_half : is_brain);
}

Result<Tensor> saturated(const Tensor& t, DType type) {
  PERI_ASSIGN(Tensor out, Tensor::uninitialized(type, t.dims()));
  const auto values = t.as<float>();
  uint16_t* const to = out.mutable_as<uint16_t>();
  in_pieces(t.numel(), [&](int64_t begin, int64_t end) {
    const auto part = values.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    std::transform(part.begin(), part.end(), to + begin, type == DType::kF16 ? to_half : to_brain);
  });
  return out;
}

Result<Tensor> in_float32(const Tensor& t) {
  PERI_ASSIGN(Tensor out, Tensor::uninitialized(DType::kF32, t.dims()));
  const auto values = t.as<uint16_t>();
  float* const to = out.mutable_as<float>();
  in_pieces(t.numel(), [&](int64_t begin, int64_t end) {
    const auto part = values.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    std::transform(part.begin(), part.end(), to + begin, t.dtype() == DType::kF16 ? f16_to_f32 : bf16_to_f32);
  });
  return out;
}

bool copies(const ir::Node& n) {
  const ops::OpDef* op = ops::find(n.op);
  return op && op->moves && !op->elementwise && !op->inputs.empty() &&
         ops::contains(op->inputs[0].types, DType::kString);
}

bool may_round(const ir::Node& n, size_t port) {
  return ops::role_of(n, port) == ops::Role::kWeight || (port == 0 && copies(n));
}

}  // namespace peri::passes
