// Scales by element, as runs.
#include "kernels/cpu/quantize/scaled.hpp"

#include <algorithm>

namespace peri::kernels::cpu::quantize {
namespace {
int64_t count(const std::vector<int64_t>& d) {
  int64_t n = 1;
  for (const int64_t extent : d) n *= extent;
  return n;
}
}  // namespace

Scaled::Run Scaled::run_at(int64_t at) const {
  if (one) return {0, 0, elements() - at};
  const int64_t i = at % inner, e = at / inner % extent, o = at / inner / extent;
  if (block == 0) return inner == 1 ? Run{e, 1, extent - e} : Run{e, 0, inner - i};
  const int64_t first = (o * blocks + e / block) * inner;
  return inner == 1 ? Run{first, 0, std::min(extent - e, block - e % block)} : Run{first + i, 1, inner - i};
}

void spread(const Scaled& s, DType type, int64_t at, int64_t n, const void* from, void* to) {
  const auto by = [&]<class T>(T*) {
    spread<T>(s, at, n, static_cast<const T*>(from) + s.scale_at(at), static_cast<T*>(to));
  };
  const int bytes = dtype_size(type);
  PERI_CHECK(bytes == 1 || bytes == 2 || bytes == 4);
  if (bytes == 1) return by(static_cast<uint8_t*>(nullptr));
  if (bytes == 2) return by(static_cast<uint16_t*>(nullptr));
  by(static_cast<uint32_t*>(nullptr));
}

Result<Scaled> read_scaled(const ir::Node& n) {
  Scaled s;
  const std::vector<int64_t> d = dims_of(*n.in(0)), scales = dims_of(*n.in(1));
  const auto rank = static_cast<int64_t>(d.size());
  int64_t axis = n.i("axis", 1);
  if (axis < 0) axis += rank;
  s.block = n.i("block_size");
  s.one = s.block == 0 && count(scales) == 1;
  if (!s.one && (axis < 0 || axis >= rank)) return refused("no axis that the scales lie along");
  for (int64_t k = 0; k < rank; ++k)
    (s.one || k > axis ? s.inner : k == axis ? s.extent : s.outer) *= d[static_cast<size_t>(k)];
  if (s.elements() == 0) return refused("an empty tensor");
  if (s.block > 0) s.blocks = (s.extent + s.block - 1) / s.block;
  const int64_t wanted = s.one ? 1 : s.block == 0 ? s.extent : s.outer * s.blocks * s.inner;
  if (count(scales) != wanted) return refused("scales of another shape");
  if (n.in(2) && count(dims_of(*n.in(2))) != wanted) return refused("a zero point of another shape than the scale");
  return s;
}

void quantize_run(const Loops& l, DType type, const float* x, const float* scale, const void* zero, int64_t step,
                  void* y, int64_t n) {
  const auto by = [&]<class Q>(void (*loop)(const float*, const float*, const Q*, int64_t, Q*, int64_t)) {
    loop(x, scale, static_cast<const Q*>(zero), step, static_cast<Q*>(y), n);
  };
  switch (type) {
    case DType::kU8: return by(l.to_u8);
    case DType::kI8: return by(l.to_i8);
    case DType::kU16: return by(l.to_u16);
    case DType::kI16: return by(l.to_i16);
    default: PERI_CHECK(false, "integers that there is no loop for");
  }
}

void dequantize_run(const Loops& l, DType type, const void* x, const float* scale, const void* zero, int64_t step,
                    float* y, int64_t n) {
  const auto by = [&]<class Q>(void (*loop)(const Q*, const float*, const Q*, int64_t, float*, int64_t)) {
    loop(static_cast<const Q*>(x), scale, static_cast<const Q*>(zero), step, y, n);
  };
  switch (type) {
    case DType::kU8: return by(l.from_u8);
    case DType::kI8: return by(l.from_i8);
    case DType::kU16: return by(l.from_u16);
    case DType::kI16: return by(l.from_i16);
    case DType::kI32: return by(l.from_i32);
    default: PERI_CHECK(false, "integers that there is no loop for");
  }
}

}  // namespace peri::kernels::cpu::quantize
