// Expected results of products, convolutions and their epilogues: float64 values with a bound on a float32 kernel's
// error.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/cpu/gemm/epilogue.hpp"
#include "tests/kernels/runs_here.hpp"

namespace peri::kernels::cpu {

inline std::vector<Isa> isas_here() {
  std::vector<Isa> out;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (runs_here(isa)) {
      out.push_back(isa);
    } else {
      std::printf("not run here: %s\n", std::string(isa_name(isa)).c_str());
    }
  }
  return out;
}

inline double activate(const PostOp& op, double x) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  switch (op.act) {
    case Activation::kRelu: return std::max(x, 0.0);
    case Activation::kClip: return std::min(std::max(x, double{op.a}), double{op.b});
    case Activation::kLeakyRelu: return x < 0 ? double{op.a} * x : x;
    case Activation::kSigmoid: return sigmoid(x);
    case Activation::kSilu: return x * sigmoid(x);
    case Activation::kTanh: return std::tanh(x);
    case Activation::kHardSigmoid: return std::max(0.0, std::min(1.0, op.a * x + op.b));
    case Activation::kHardSwish: return x * std::max(0.0, std::min(1.0, x / 6 + 0.5));
    case Activation::kGelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

// Value and a bound on its error; every activation here has a Lipschitz constant of at most 1.13.
struct Bounded {
  double value, radius;
};

inline Bounded finish(const Epilogue& e, Bounded v, int64_t r, int64_t c) {
  constexpr double u = 0x1p-24;
  for (int i = 0; i < e.count; ++i) {
    const PostOp& op = e.ops[i];
    switch (op.kind) {
      case PostKind::kColAdd: v.value += op.data[c]; break;
      case PostKind::kRowAdd: v.value += op.data[r]; break;
      case PostKind::kAdd: v.value += op.data[r * op.ld + c]; break;
      case PostKind::kColMul: v = {v.value * op.data[c], v.radius * std::abs(op.data[c])}; break;
      case PostKind::kRowMul: v = {v.value * op.data[r], v.radius * std::abs(op.data[r])}; break;
      case PostKind::kMul: v = {v.value * op.data[r * op.ld + c], v.radius * std::abs(op.data[r * op.ld + c])}; break;
      case PostKind::kAffine: v = {v.value * op.a + op.b, v.radius * std::abs(op.a)}; break;
      case PostKind::kActivation: {
        const double x = v.value;
        v = {activate(op, x), 1.2 * v.radius + 4 * u * std::abs(x)};
        break;
      }
    }
    v.radius += 4 * u * std::abs(v.value) + 1e-30;
  }
  return v;
}

// c * sqrt(k) * u * sum |terms| with c = 4.
inline Bounded dot(const float* a, const float* b, int64_t b_stride, int64_t k) {
  double sum = 0, magnitude = 0;
  for (int64_t i = 0; i < k; ++i) {
    const double term = double{a[i]} * b[i * b_stride];
    sum += term;
    magnitude += std::abs(term);
  }
  return {sum, 4 * std::sqrt(static_cast<double>(k)) * 0x1p-24 * magnitude};
}

}  // namespace peri::kernels::cpu
