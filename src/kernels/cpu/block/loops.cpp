// Integer, bool, cast and f64 loops of block code, and the merging of reductions.
#include "kernels/cpu/block/kernels.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace peri::kernels::cpu::block {
namespace {

template <class T, class R, class F>
void map1(const Call& call, int64_t n, F f) {
  const T* a = static_cast<const T*>(call.a);
  R* dst = static_cast<R*>(call.dst);
  for (int64_t i = 0; i < n; ++i) dst[i] = f(a[i]);
}
template <class T, class R, class F>
void map2(const Call& call, int64_t n, F f) {
  const T* a = static_cast<const T*>(call.a);
  const T* b = static_cast<const T*>(call.b);
  R* dst = static_cast<R*>(call.dst);
  for (int64_t i = 0; i < n; ++i) dst[i] = f(a[i], b[i]);
}

// Wrapping arithmetic in the unsigned type: no undefined overflow.
template <class T>
using Wrap = std::make_unsigned_t<T>;
template <class T>
T wrap(Wrap<T> v) {
  return static_cast<T>(v);
}

template <class T>
Kernel integer_op(Op op) {
  using U = Wrap<T>;
  switch (op) {
    case Op::kNeg:
      return [](const Call& c, int64_t n) { map1<T, T>(c, n, [](T a) { return wrap<T>(U{0} - static_cast<U>(a)); }); };
    case Op::kAbs:
      return [](const Call& c, int64_t n) {
        map1<T, T>(c, n, [](T a) { return a < 0 ? wrap<T>(U{0} - static_cast<U>(a)) : a; });
      };
    case Op::kAdd:
      return [](const Call& c, int64_t n) {
        map2<T, T>(c, n, [](T a, T b) { return wrap<T>(static_cast<U>(a) + static_cast<U>(b)); });
      };
    case Op::kSub:
      return [](const Call& c, int64_t n) {
        map2<T, T>(c, n, [](T a, T b) { return wrap<T>(static_cast<U>(a) - static_cast<U>(b)); });
      };
    case Op::kMul:
      return [](const Call& c, int64_t n) {
        map2<T, T>(c, n, [](T a, T b) { return wrap<T>(static_cast<U>(a) * static_cast<U>(b)); });
      };
    case Op::kMax: return [](const Call& c, int64_t n) { map2<T, T>(c, n, [](T a, T b) { return a > b ? a : b; }); };
    case Op::kMin: return [](const Call& c, int64_t n) { map2<T, T>(c, n, [](T a, T b) { return a < b ? a : b; }); };
    default: return nullptr;
  }
}

template <class T>
Kernel compare_op(Op op) {
  switch (op) {
    case Op::kEq:
      return [](const Call& c, int64_t n) { map2<T, uint8_t>(c, n, [](T a, T b) { return uint8_t{a == b}; }); };
    case Op::kNe:
      return [](const Call& c, int64_t n) { map2<T, uint8_t>(c, n, [](T a, T b) { return uint8_t{a != b}; }); };
    case Op::kLt:
      return [](const Call& c, int64_t n) { map2<T, uint8_t>(c, n, [](T a, T b) { return uint8_t{a < b}; }); };
    case Op::kLe:
      return [](const Call& c, int64_t n) { map2<T, uint8_t>(c, n, [](T a, T b) { return uint8_t{a <= b}; }); };
    case Op::kGt:
      return [](const Call& c, int64_t n) { map2<T, uint8_t>(c, n, [](T a, T b) { return uint8_t{a > b}; }); };
    case Op::kGe:
      return [](const Call& c, int64_t n) { map2<T, uint8_t>(c, n, [](T a, T b) { return uint8_t{a >= b}; }); };
    default: return nullptr;
  }
}

Kernel bool_op(Op op) {
  using B = uint8_t;
  switch (op) {
    case Op::kNot: return [](const Call& c, int64_t n) { map1<B, B>(c, n, [](B a) { return B{a == 0}; }); };
    case Op::kAnd:
      return [](const Call& c, int64_t n) { map2<B, B>(c, n, [](B a, B b) { return B{a != 0 && b != 0}; }); };
    case Op::kOr: return [](const Call& c, int64_t n) { map2<B, B>(c, n, [](B a, B b) { return B{(a | b) != 0}; }); };
    case Op::kXor:
    case Op::kNe:
      return [](const Call& c, int64_t n) { map2<B, B>(c, n, [](B a, B b) { return B{(a != 0) != (b != 0)}; }); };
    case Op::kEq:
      return [](const Call& c, int64_t n) { map2<B, B>(c, n, [](B a, B b) { return B{(a != 0) == (b != 0)}; }); };
    default: return nullptr;
  }
}

template <class T>
void select_plain(const Call& call, int64_t n) {
  const uint8_t* a = static_cast<const uint8_t*>(call.a);
  const T* b = static_cast<const T*>(call.b);
  const T* c = static_cast<const T*>(call.c);
  T* dst = static_cast<T*>(call.dst);
  for (int64_t i = 0; i < n; ++i) dst[i] = a[i] != 0 ? b[i] : c[i];
}

// Towards zero; NaN is 0, beyond the range the nearest end.
template <class T>
T to_integer(float v) {
  if (!(v == v)) return 0;
  if (v >= -static_cast<float>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::max();
  if (v <= static_cast<float>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(v);
}

template <class From, class To>
void cast_loop(const Call& call, int64_t n) {
  map1<From, To>(call, n, [](From v) {
    if constexpr (std::is_same_v<From, float> && !std::is_same_v<To, float>) return to_integer<To>(v);
    return static_cast<To>(v);
  });
}
template <class From>
void cast_to_bool(const Call& call, int64_t n) {
  map1<From, uint8_t>(call, n, [](From v) { return uint8_t{v != 0}; });
}
template <class From>
Kernel cast_op(Type to) {
  switch (to) {
    case Type::kF32: return cast_loop<From, float>;
    case Type::kI32: return cast_loop<From, int32_t>;
    case Type::kI64: return cast_loop<From, int64_t>;
    case Type::kBool: return cast_to_bool<From>;
  }
  return nullptr;
}

void is_nan_loop(const Call& call, int64_t n) {
  map1<float, uint8_t>(call, n, [](float v) { return uint8_t{v != v}; });
}
void is_inf_loop(const Call& call, int64_t n) {
  map1<float, uint8_t>(call, n, [](float v) { return uint8_t{std::abs(v) > std::numeric_limits<float>::max()}; });
}

template <class From, class To>
void convert(const void* from, void* to, int64_t n) {
  const char* a = static_cast<const char*>(from);
  char* b = static_cast<char*>(to);
  for (int64_t i = 0; i < n; ++i) {
    From v;
    std::memcpy(&v, a + i * static_cast<int64_t>(sizeof v), sizeof v);
    const To w = static_cast<To>(v);
    std::memcpy(b + i * static_cast<int64_t>(sizeof w), &w, sizeof w);
  }
}

}  // namespace

Kernel find_plain(const Key& key) {
  if (key.scalars != 0) return nullptr;
  if (key.op == Op::kIsNan) return is_nan_loop;
  if (key.op == Op::kIsInf) return is_inf_loop;
  if (key.op == Op::kSelect) {
    if (key.to == Type::kBool) return select_plain<uint8_t>;
    return key.to == Type::kI64 ? select_plain<int64_t> : select_plain<int32_t>;
  }
  if (key.op == Op::kCast) {
    switch (key.type) {
      case Type::kF32: return cast_op<float>(key.to);
      case Type::kI32: return cast_op<int32_t>(key.to);
      case Type::kI64: return cast_op<int64_t>(key.to);
      case Type::kBool: return cast_op<uint8_t>(key.to);
    }
  }
  if (key.type == Type::kBool) return bool_op(key.op);
  const bool wide = key.type == Type::kI64;
  if (Kernel k = wide ? integer_op<int64_t>(key.op) : integer_op<int32_t>(key.op)) return k;
  return wide ? compare_op<int64_t>(key.op) : compare_op<int32_t>(key.op);
}

Convert load_convert(Isa isa, DType from) {
  switch (from) {
    case DType::kF16: return kernels(isa).load_f16;
    case DType::kBF16: return kernels(isa).load_bf16;
    case DType::kF64: return convert<double, float>;
    case DType::kI8: return kernels(isa).load_i8;
    case DType::kU8: return kernels(isa).load_u8;
    case DType::kI16: return convert<int16_t, int32_t>;
    case DType::kU16: return convert<uint16_t, int32_t>;
    default: return nullptr;
  }
}

Convert store_convert(Isa isa, DType to) {
  switch (to) {
    case DType::kF16: return kernels(isa).store_f16;
    case DType::kBF16: return kernels(isa).store_bf16;
    case DType::kF64: return convert<float, double>;
    case DType::kI8: return kernels(isa).store_i8;
    case DType::kU8: return kernels(isa).store_u8;
    case DType::kI16: return convert<int32_t, int16_t>;
    case DType::kU16: return convert<int32_t, uint16_t>;
    default: return nullptr;
  }
}

Partial reduce_start(Op op) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (op) {
    case Op::kReduceMax: return {{-kInf, 0}};
    case Op::kReduceLogSumExp: return {{-kInf, 0}};
    case Op::kReduceMin: return {{kInf, 0}};
    case Op::kReduceProd: return {{1, 0}};
    default: return {{0, 0}};
  }
}

void reduce_merge(Op op, Partial* into, const Partial& later) {
  double& x = into->a[0];
  const double y = later.a[0];
  switch (op) {
    case Op::kReduceMax:
      if (!(y <= x) && x == x) x = y;
      return;
    case Op::kReduceMin:
      if (!(y >= x) && x == x) x = y;
      return;
    case Op::kReduceProd: x *= y; return;
    case Op::kReduceLogSumExp: {
      if (x != x) return;
      if (!(y <= x)) {  // the later maximum is larger, or NaN
        into->a[1] = (std::isinf(x) ? 0.0 : into->a[1] * std::exp(x - y)) + later.a[1];
        x = y;
      } else if (!std::isinf(y)) {
        into->a[1] += later.a[1] * std::exp(y - x);
      }
      return;
    }
    default: x += y; return;
  }
}

float reduce_finish(Op op, const Partial& s, int64_t count) {
  switch (op) {
    case Op::kReduceMean: return static_cast<float>(s.a[0] / static_cast<double>(count));
    case Op::kReduceL2: return static_cast<float>(std::sqrt(s.a[0]));
    case Op::kReduceLogSumExp: return static_cast<float>(std::isinf(s.a[0]) ? s.a[0] : s.a[0] + std::log(s.a[1]));
    default: return static_cast<float>(s.a[0]);
  }
}

const Kernels& kernels(Isa isa) { return isa == Isa::kAvx512 ? avx512::kKernels : avx2::kKernels; }

}  // namespace peri::kernels::cpu::block
