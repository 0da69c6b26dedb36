// The epilogue's steps as passes over a tile that is still in L1; compiled once per Isa like tile_body.hpp.
#pragma once

#include "kernels/cpu/gemm/tile.hpp"
#include "kernels/cpu/simd/math.hpp"

namespace peri::kernels::cpu::post_body {

// c[r][j] = f(c[r][j], r, j) for whole vectors and the tail of each row; f takes (value, row, column, lanes wanted).
template <class V, class F>
[[gnu::always_inline]] inline void each(float* c, int64_t ldc, int64_t rows, int64_t cols, const F& f) {
  for (int64_t r = 0; r < rows; ++r, c += ldc) {
    int64_t j = 0;
    for (; j + V::kLanes <= cols; j += V::kLanes) store(c + j, f(V::load(c + j), r, j, V::kLanes));
    if (j < cols) store_n(c + j, f(V::load_n(c + j, cols - j), r, j, cols - j), cols - j);
  }
}

template <class V>
[[gnu::always_inline]] inline V read(const float* p, int64_t lanes) {
  return lanes == V::kLanes ? V::load(p) : V::load_n(p, lanes);
}

template <class V>
void activate(float* c, int64_t ldc, int64_t rows, int64_t cols, const PostOp& op) {
  const V a = V::set1(op.a), b = V::set1(op.b);
  const auto apply = [&](const auto& f) {
    each<V>(c, ldc, rows, cols, [&](V x, int64_t, int64_t, int64_t) { return f(x); });
  };
  switch (op.act) {
    case Activation::kRelu: return apply([](V x) { return simd::relu(x); });
    case Activation::kClip: return apply([&](V x) { return min_second(b, max_second(a, x)); });
    case Activation::kLeakyRelu: return apply([&](V x) { return select(lt(x, V::zero()), a * x, x); });
    case Activation::kSigmoid: return apply([](V x) { return simd::sigmoid(x); });
    case Activation::kSilu: return apply([](V x) { return simd::silu(x); });
    case Activation::kTanh: return apply([](V x) { return simd::tanh(x); });
    case Activation::kHardSigmoid: return apply([&](V x) { return simd::hard_sigmoid(x, a, b); });
    case Activation::kHardSwish: return apply([](V x) { return simd::hard_swish(x); });
    case Activation::kGelu: return apply([](V x) { return simd::gelu_erf(x); });
    case Activation::kGeluTanh: return apply([](V x) { return simd::gelu_tanh(x); });
  }
}

template <class V>
void post(float* c, int64_t ldc, int64_t rows, int64_t cols, const PostOp* ops, int count, int64_t r0, int64_t c0) {
  for (int i = 0; i < count; ++i) {
    const PostOp& op = ops[i];
    const float* const data = op.data;  // null where the step has none: then no offset is added to it
    const float* column = data != nullptr ? data + c0 : nullptr;
    const float* row = data != nullptr ? data + r0 : nullptr;
    const float* both = data != nullptr ? data + r0 * op.ld + c0 : nullptr;
    switch (op.kind) {
      case PostKind::kColAdd:
        each<V>(c, ldc, rows, cols, [&](V x, int64_t, int64_t j, int64_t n) { return x + read<V>(column + j, n); });
        break;
      case PostKind::kColMul:
        each<V>(c, ldc, rows, cols, [&](V x, int64_t, int64_t j, int64_t n) { return x * read<V>(column + j, n); });
        break;
      case PostKind::kRowAdd:
        each<V>(c, ldc, rows, cols, [&](V x, int64_t r, int64_t, int64_t) { return x + V::set1(row[r]); });
        break;
      case PostKind::kRowMul:
        each<V>(c, ldc, rows, cols, [&](V x, int64_t r, int64_t, int64_t) { return x * V::set1(row[r]); });
        break;
      case PostKind::kAdd:
        each<V>(c, ldc, rows, cols,
                [&](V x, int64_t r, int64_t j, int64_t n) { return x + read<V>(both + r * op.ld + j, n); });
        break;
      case PostKind::kMul:
        each<V>(c, ldc, rows, cols,
                [&](V x, int64_t r, int64_t j, int64_t n) { return x * read<V>(both + r * op.ld + j, n); });
        break;
      case PostKind::kAffine: {
        const V a = V::set1(op.a), b = V::set1(op.b);
        each<V>(c, ldc, rows, cols, [&](V x, int64_t, int64_t, int64_t) { return fma(x, a, b); });
        break;
      }
      case PostKind::kActivation: activate<V>(c, ldc, rows, cols, op); break;
    }
  }
}

}  // namespace peri::kernels::cpu::post_body
