// The cells of cell.hpp, written once; included by cell_avx2.cpp and cell_avx512.cpp, which set PERI_ISA.

#include "kernels/cpu/cell/cell.hpp"
#include "kernels/cpu/simd/math.hpp"

namespace peri::kernels::cpu::cell::PERI_ISA {

using simd::PERI_ISA::F32;
using simd::PERI_ISA::I32;
constexpr int64_t kLanes = F32::kLanes;

PERI_SIMD F32 read(const float* p, int64_t n) { return n == kLanes ? F32::load(p) : F32::load_n(p, n); }
PERI_SIMD void write(float* p, F32 v, int64_t n) { n == kLanes ? store(p, v) : store_n(p, v, n); }

// Those that few cells have; out of line, so that the others stay short.
[[gnu::noinline]] static F32 apply_rare(const Activation& f, F32 v) {
  const F32 alpha = F32::set1(f.alpha), beta = F32::set1(f.beta), zero = F32::zero();
  switch (f.function) {
    case Function::kAffine: return fma(alpha, v, beta);
    case Function::kLeakyRelu: return select(lt(v, zero), alpha * v, v);
    case Function::kThresholdedRelu: return select(gt(v, alpha), v, zero);
    case Function::kScaledTanh: return alpha * simd::tanh(beta * v);
    case Function::kHardSigmoid: return simd::hard_sigmoid(v, alpha, beta);
    case Function::kElu: return select(lt(v, zero), alpha * simd::expm1(v), v);
    case Function::kSoftsign: return v / (F32::set1(1.0f) + abs(v));
    default: return simd::softplus(v);
  }
}
PERI_SIMD F32 apply(const Activation& f, F32 v) {
  if (f.function == Function::kTanh) return simd::tanh(v);
  if (f.function == Function::kSigmoid) return simd::sigmoid(v);
  if (f.function == Function::kRelu) return simd::relu(v);
  return apply_rare(f, v);
}

// Vector `j` of a row, of `n` units.
struct Units {
  const Row& row;
  int64_t j, n;
};

PERI_SIMD F32 sum(const Units& u, int g) {
  const Row& r = u.row;
  return read(r.pre + g * r.hidden + u.j, u.n) + read(r.product + g * r.width + u.j, u.n);
}
PERI_SIMD F32 function(const Units& u, int k, F32 v) {
  const F32 limit = F32::set1(u.row.clip);
  return apply(u.row.functions[k], min_second(limit, max_second(F32::zero() - limit, v)));
}
PERI_SIMD F32 seen(const Units& u, int g, F32 v, F32 of) {
  return u.row.peephole ? fma(read(u.row.peephole + g * u.row.hidden + u.j, u.n), of, v) : v;
}
PERI_SIMD void keep(const Units& u, F32 h) {
  write(u.row.state + u.j, h, u.n);
  if (u.row.y) write(u.row.y + u.j, h, u.n);
}
// (1 - z) a + z h
PERI_SIMD F32 mixed(const Units& u, F32 z, F32 a) {
  return fma(F32::set1(1.0f) - z, a, z * read(u.row.old_state + u.j, u.n));
}

PERI_SIMD void gru(const Units& u) {
  const Row& r = u.row;
  const F32 z = function(u, 0, sum(u, 0)), reset = function(u, 0, sum(u, 1));
  F32 product = read(r.product + 2 * r.width + u.j, u.n);
  if (r.state_bias) product = product + read(r.state_bias + u.j, u.n);
  keep(u, mixed(u, z, function(u, 1, fma(reset, product, read(r.pre + 2 * r.hidden + u.j, u.n)))));
}

PERI_SIMD void lstm(const Units& u) {
  const Row& r = u.row;
  const F32 old = read(r.memory + u.j, u.n);
  const F32 i = function(u, 0, seen(u, 0, sum(u, 0), old));
  const F32 f = r.coupled ? F32::set1(1.0f) - i : function(u, 0, seen(u, 2, sum(u, 2), old));
  const F32 c = fma(f, old, i * function(u, 1, sum(u, 3)));
  const F32 o = function(u, 0, seen(u, 1, sum(u, 1), c));
  write(r.memory + u.j, c, u.n);
  keep(u, o * apply(r.functions[2], c));
}

void run(const Row& row) {
  for (int64_t j = 0; j < row.n; j += kLanes) {
    const Units u{row, j, row.n - j < kLanes ? row.n - j : kLanes};
    switch (row.kind) {
      case Kind::kRnn: keep(u, function(u, 0, sum(u, 0))); break;
      case Kind::kGru: gru(u); break;
      case Kind::kGruGates:
        write(row.memory + j, function(u, 0, sum(u, 0)), u.n);
        write(row.reset + j, function(u, 0, sum(u, 1)) * read(row.old_state + j, u.n), u.n);
        break;
      case Kind::kGruState: {
        const F32 total = read(row.pre + 2 * row.hidden + j, u.n) + read(row.product + j, u.n);
        keep(u, mixed(u, read(row.memory + j, u.n), function(u, 1, total)));
        break;
      }
      case Kind::kLstm: lstm(u); break;
    }
  }
}

float split(const float* x, int64_t n, uint8_t* high, uint8_t* low) {
  constexpr float kSteps = 32767.0F, kMinSize = 1e-30F, kMaxFinite = 3.4e38F;
  F32 most = F32::zero();
  bool nan = false;
  for (int64_t j = 0; j < n; j += kLanes) {
    const F32 v = F32::load_n(x + j, n - j);
    nan |= any(is_nan(v));
    most = max_second(most, abs(v));
  }
  const float largest = nan ? 0.0F : simd::PERI_ISA::max_lanes(most);
  const bool whole = !nan && largest <= kMaxFinite, some = whole && largest >= kMinSize;
  const F32 by = F32::set1(some ? kSteps / largest : 0.0F);
  const I32 middle = I32::set1(1 << 15), byte = I32::set1(255);
  for (int64_t j = 0; j < n; j += kLanes) {
    const I32 q = some ? to_int(F32::load_n(x + j, n - j) * by) + middle : middle;
    store_bytes(high + j, simd::PERI_ISA::shift_right<8>(q));
    store_bytes(low + j, q & byte);
  }
  return whole ? (some ? largest / kSteps : 0.0F) : __builtin_nanf("");
}

void join(const Joined& by) {
  const F32 step = F32::set1(by.step), byte = F32::set1(256.0F);
  for (int64_t j = 0; j < by.n; j += kLanes) {
    const int64_t n = by.n - j;
    const I32 column = I32::load_n(by.columns + j, n);
    const F32 high = to_float(I32::load_n(by.high + j, n) - simd::PERI_ISA::shift_left<7>(column));
    const F32 sum = fma(high, byte, to_float(I32::load_n(by.low + j, n)));
    const F32 add = by.add ? F32::load_n(by.add + j, n) : F32::zero();
    store_n(by.y + j, fma(sum * step, F32::load_n(by.scale + j, n), add), n);
  }
}

}  // namespace peri::kernels::cpu::cell::PERI_ISA
