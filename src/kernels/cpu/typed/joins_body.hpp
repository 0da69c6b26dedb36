// The loops of typed/joins.hpp, written once; included by joins_avx2.cpp and joins_avx512.cpp, which set PERI_ISA.
#include "kernels/cpu/typed/joins.hpp"

namespace peri::kernels::cpu::typed::PERI_ISA {
namespace {

constexpr int64_t kLanes = 64;

// The value of an element, and the combination of two of them, in types that wrap.
template <class T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<int32_t> {
  using Type = uint32_t;
};
template <>
struct Wide<int64_t> {
  using Type = uint64_t;
};
template <class T>
  requires(sizeof(T) < 4)
struct Wide<T> {
  using Type = uint32_t;
};

template <Join J, class T>
T counted(T v) {
  using W = typename Wide<T>::Type;
  if constexpr (J == Join::kSumSquare) return static_cast<T>(static_cast<W>(v) * static_cast<W>(v));
  if constexpr (J == Join::kSumMagnitude && T(-1) < T(0)) return v < 0 ? static_cast<T>(W(0) - static_cast<W>(v)) : v;
  return v;
}
template <Join J, class T>
T two(T a, T b) {
  using W = typename Wide<T>::Type;
  if constexpr (J == Join::kProduct) return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  if constexpr (J == Join::kMax) return ((b > a) | (b != b)) ? b : a;
  if constexpr (J == Join::kMin) return ((b < a) | (b != b)) ? b : a;
  return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
}

template <Join J, class T>
void places(const void* from, int64_t n, void* to) {
  const T* __restrict x = static_cast<const T*>(from);
  T* __restrict y = static_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) y[i] = two<J, T>(y[i], counted<J, T>(x[i]));
}

// Independent lanes first, then across the lanes.
template <Join J, class T>
void run(const void* from, int64_t n, void* to) {
  const T* x = static_cast<const T*>(from);
  T all = *static_cast<T*>(to);
  int64_t k = 0;
  if (n >= kLanes) {
    T lanes[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = counted<J, T>(x[l]);
    for (k = kLanes; k + kLanes <= n; k += kLanes)
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] = two<J, T>(lanes[l], counted<J, T>(x[k + l]));
    for (int64_t width = kLanes / 2; width > 0; width /= 2)
      for (int64_t l = 0; l < width; ++l) lanes[l] = two<J, T>(lanes[l], lanes[l + width]);
    all = two<J, T>(all, lanes[0]);
  }
  for (; k < n; ++k) all = two<J, T>(all, counted<J, T>(x[k]));
  *static_cast<T*>(to) = all;
}

template <class T>
Joins of_type(Join join) {
  switch (join) {
    case Join::kSum: return {run<Join::kSum, T>, places<Join::kSum, T>};
    case Join::kSumSquare: return {run<Join::kSumSquare, T>, places<Join::kSumSquare, T>};
    case Join::kSumMagnitude: return {run<Join::kSumMagnitude, T>, places<Join::kSumMagnitude, T>};
    case Join::kProduct: return {run<Join::kProduct, T>, places<Join::kProduct, T>};
    case Join::kMax: return {run<Join::kMax, T>, places<Join::kMax, T>};
    case Join::kMin: return {run<Join::kMin, T>, places<Join::kMin, T>};
  }
  return {nullptr, nullptr};
}
}  // namespace

Joins find_joins(Join join, Elem of) {
  switch (of) {
    case Elem::kF32: return of_type<float>(join);
    case Elem::kF64: return of_type<double>(join);
    case Elem::kI32: return of_type<int32_t>(join);
    case Elem::kI64: return of_type<int64_t>(join);
    case Elem::kI8: return of_type<int8_t>(join);
    case Elem::kU8:
    case Elem::kBool: return of_type<uint8_t>(join);
    case Elem::kI16: return of_type<int16_t>(join);
    case Elem::kU16: return of_type<uint16_t>(join);
    case Elem::kU32: return of_type<uint32_t>(join);
    case Elem::kU64: return of_type<uint64_t>(join);
    default: return {nullptr, nullptr};
  }
}

}  // namespace peri::kernels::cpu::typed::PERI_ISA
