// Single elements of reference tensors: copying them with their radius, exact integer arithmetic in a type's width, and
// the flat position of an input element for an output position.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/entry.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {

// Every type that can be copied without arithmetic. Complex types have no reference tensor.
constexpr TypeSet kMovable = kAnyType & ~types({DType::kC64, DType::kC128});
constexpr TypeSet kFloat8 = types({DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ});

// to[to_at] = from[at], value and radius.
inline void copy_element(const RefTensor& from, int64_t at, RefTensor& to, int64_t to_at) {
  const size_t a = static_cast<size_t>(at), b = static_cast<size_t>(to_at);
  if (to.dtype == DType::kString) {
    to.s[b] = from.s[a];
  } else if (to.floating()) {
    to.f[b] = from.f[a];
    if (!to.radius.empty()) to.radius[b] = from.r(at);
  } else {
    to.i[b] = from.i[a];
  }
}

// kMemory: a value has more elements than this evaluation allows.
Error too_many_elements(int64_t elements, int64_t most);
// Sizes a data-dependent output for its concrete dims; kMemory beyond its most_elements.
Status resize(RefTensor& t, std::vector<int64_t> dims);

// v modulo 2^bits of an integer type, sign- or zero-extended as RefTensor keeps it; bool: v != 0.
int64_t wrap(DType t, int64_t v);
// a < b in the order of the type (u64 keeps its bits in int64).
inline bool int_less(DType t, int64_t a, int64_t b) {
  return t == DType::kU64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}
// An integer element as a double.
inline double int_value(DType t, int64_t v) {
  return t == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(v)) : static_cast<double>(v);
}
// Any number (float, integer, bool) as a double.
inline double number_at(const RefTensor& t, int64_t at) {
  return t.floating() ? t.f[static_cast<size_t>(at)] : int_value(t.dtype, t.i[static_cast<size_t>(at)]);
}
// A double truncated into an integer type; NaN gives 0, out of range saturates to int64 (u64: to its own range) and
// wraps.
int64_t int_from(DType t, double v);
int64_t int_lowest(DType t);
int64_t int_largest(DType t);  // u64: the bits of 2^64 - 1

// Smallest normal magnitude of the type.
double smallest_normal(DType t);
// Magnitudes below this may be flushed to zero by arithmetic with results of this type: the smallest normal number,
// that of float32 for narrow results, which are computed in float32 and keep their subnormal numbers when they are
// stored.
inline double flushed_below(DType t) { return smallest_normal(t == DType::kF64 ? t : DType::kF32); }
// Radius of one rounding: c * u * |v|, plus the flush of a subnormal result. 0 when u is 0 or v is not finite.
inline double rounding(const RefCall& call, double c, double v) {
  if (call.u == 0 || !std::isfinite(v)) return 0;
  const double tiny = flushed_below(call.out[0].dtype);
  return c * call.u * std::fabs(v) + (v != 0 && std::fabs(v) < tiny ? tiny : 0);
}

// Position of an input element for a position of an output of `out` dims, with broadcasting; common cases need no
// division.
class Under {
 public:
  Under(const std::vector<int64_t>& in, const std::vector<int64_t>& out);
  int64_t operator()(int64_t position) const {
    if (kind_ == Kind::kSame) return position;
    if (kind_ == Kind::kOne) return 0;
    if (kind_ == Kind::kTail) return position % tail_;
    return broadcast_index(position, out_, strides_);
  }

 private:
  enum class Kind { kSame, kOne, kTail, kAny };
  Kind kind_;
  int64_t tail_ = 1;
  std::vector<int64_t> out_, strides_;
};

// Integers that a value is known to hold: its constant or its content, if all are numbers.
std::optional<std::vector<int64_t>> known_ints(const ir::Value* v);
// All elements of an integer reference tensor.
inline const std::vector<int64_t>& ints_of(const RefTensor& t) { return t.i; }

// Ops that only copy elements: y[p] = x[source(p)].
template <class F>
Status move_elements(RefCall& call, const RefTensor& x, F source) {
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    copy_element(x, source(p), call.out[0], p);
  }
  return Ok{};
}
// Sorts and removes duplicates, as OpDef::pull requires.
void sort_unique(std::vector<int64_t>* positions);
// Same flat position in input 0 and output 0; other inputs whole.
bool pull_same(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed);

// Every byte of output 0 is moved once, without arithmetic.
Cost cost_move(const ir::Node& node);
// Only dimensions change: no bytes are moved.
Cost cost_view(const ir::Node& node);
// Number of elements with unknown dimensions taken as 1.
double numel_of(const ir::Value* v);

}  // namespace peri::ops
