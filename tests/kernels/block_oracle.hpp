// Block code in double arithmetic, element by element, and seeded inputs for it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cpu/block/plan.hpp"
#include "tests/kernels/guarded_bytes.hpp"
#include "tests/kernels/runs_here.hpp"

namespace peri::kernels::cpu::block {

using Guarded = tests::GuardedBytes;

inline std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (runs_here(isa)) list.push_back(isa);
  }
  return list;
}

// One value of any register type, in double (integers here stay below 2^53).
inline double unary64(const Instruction& i, double x) {
  const double a = static_cast<double>(i.imm[0]), b = static_cast<double>(i.imm[1]);
  const double sigmoid = x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
  const double softplus = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  switch (i.op) {
    case Op::kSqrt: return std::sqrt(x);
    case Op::kRsqrt: return 1 / std::sqrt(x);
    case Op::kReciprocal: return 1 / x;
    case Op::kExp: return std::exp(x);
    case Op::kExpm1: return std::expm1(x);
    case Op::kLog: return std::log(x);
    case Op::kTanh: return std::tanh(x);
    case Op::kErf: return std::erf(x);
    case Op::kSigmoid: return sigmoid;
    case Op::kSin: return std::sin(x);
    case Op::kCos: return std::cos(x);
    case Op::kRound: return std::nearbyint(x);
    case Op::kFloor: return std::floor(x);
    case Op::kCeil: return std::ceil(x);
    case Op::kTrunc: return std::trunc(x);
    case Op::kSign: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case Op::kRelu: return std::max(x, 0.0);
    case Op::kSilu: return x * sigmoid;
    case Op::kGelu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Op::kGeluTanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Op::kHardSwish: return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case Op::kSoftplus: return softplus;
    case Op::kMish: return x * std::tanh(softplus);
    case Op::kSquare: return x * x;
    case Op::kLeakyRelu: return x < 0 ? a * x : x;
    case Op::kElu: return x < 0 ? a * std::expm1(x) : x;
    case Op::kHardSigmoid: return std::clamp(a * x + b, 0.0, 1.0);
    case Op::kClip: return std::min(b, std::max(a, x));
    case Op::kNeg: return -x;
    case Op::kAbs: return std::abs(x);
    case Op::kIsNan: return std::isnan(x);
    case Op::kIsInf: return std::isinf(x);
    case Op::kNot: return x == 0;
    case Op::kCast:
      if (i.type == Type::kBool) return x != 0;
      return i.type == Type::kF32 ? x : std::trunc(x);
    default: ADD_FAILURE() << "unknown unary"; return 0;
  }
}
inline double binary64(Op op, double x, double y) {
  switch (op) {
    case Op::kAdd: return x + y;
    case Op::kSub: return x - y;
    case Op::kMul: return x * y;
    case Op::kMax: return std::max(x, y);
    case Op::kMin: return std::min(x, y);
    case Op::kDiv: return x / y;
    case Op::kPow: return std::pow(x, y);
    case Op::kPRelu: return x < 0 ? x * y : x;
    case Op::kEq: return x == y;
    case Op::kNe: return x != y;
    case Op::kLt: return x < y;
    case Op::kLe: return x <= y;
    case Op::kGt: return x > y;
    case Op::kGe: return x >= y;
    case Op::kAnd: return x != 0 && y != 0;
    case Op::kOr: return x != 0 || y != 0;
    case Op::kXor: return (x != 0) != (y != 0);
    default: ADD_FAILURE() << "unknown binary"; return 0;
  }
}
inline double reduce64(Op op, const std::vector<double>& v) {
  double sum = 0, squares = 0, prod = 1, most = -INFINITY, least = INFINITY, exps = 0;
  for (double x : v) {
    sum += x;
    squares += x * x;
    prod *= x;
    most = std::max(most, x);
    least = std::min(least, x);
  }
  for (double x : v) exps += std::exp(x - most);
  switch (op) {
    case Op::kReduceSum: return sum;
    case Op::kReduceMean: return sum / static_cast<double>(v.size());
    case Op::kReduceMax: return most;
    case Op::kReduceMin: return least;
    case Op::kReduceProd: return prod;
    case Op::kReduceSumSquare: return squares;
    case Op::kReduceL2: return std::sqrt(squares);
    default: return most + std::log(exps);
  }
}

inline double read(DType t, const void* p, int64_t i) {
  switch (t) {
    case DType::kF32: return static_cast<double>(static_cast<const float*>(p)[i]);
    case DType::kF64: return static_cast<const double*>(p)[i];
    case DType::kF16: return static_cast<double>(f16_to_f32(static_cast<const uint16_t*>(p)[i]));
    case DType::kBF16: return static_cast<double>(bf16_to_f32(static_cast<const uint16_t*>(p)[i]));
    case DType::kI64: return static_cast<double>(static_cast<const int64_t*>(p)[i]);
    case DType::kI32: return static_cast<const int32_t*>(p)[i];
    case DType::kI8: return static_cast<const int8_t*>(p)[i];
    case DType::kI16: return static_cast<const int16_t*>(p)[i];
    case DType::kU16: return static_cast<const uint16_t*>(p)[i];
    default: return static_cast<const uint8_t*>(p)[i];
  }
}
inline void write(DType t, void* p, int64_t i, double v) {
  switch (t) {
    case DType::kF32: static_cast<float*>(p)[i] = static_cast<float>(v); return;
    case DType::kF64: static_cast<double*>(p)[i] = v; return;
    case DType::kF16: static_cast<uint16_t*>(p)[i] = f32_to_f16(static_cast<float>(v)); return;
    case DType::kBF16: static_cast<uint16_t*>(p)[i] = f32_to_bf16(static_cast<float>(v)); return;
    case DType::kI64: static_cast<int64_t*>(p)[i] = static_cast<int64_t>(v); return;
    case DType::kI32: static_cast<int32_t*>(p)[i] = static_cast<int32_t>(v); return;
    case DType::kI8: static_cast<int8_t*>(p)[i] = static_cast<int8_t>(v); return;
    case DType::kI16: static_cast<int16_t*>(p)[i] = static_cast<int16_t>(v); return;
    case DType::kU16: static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(v); return;
    case DType::kBool: static_cast<uint8_t*>(p)[i] = v > 0; return;
    default: static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(v); return;
  }
}

struct World {
  Code program;
  Space space;
  std::vector<Guarded> inputs, outputs;
  int64_t count = 1, reduce_count = 1;
};

inline uint64_t next(uint64_t* state) { return *state = *state * 6364136223846793005u + 1442695040888963407u; }

inline int64_t reach(const World& w, size_t k) {
  int64_t r = 1;
  for (size_t d = 0; d < w.space.dims.size(); ++d) r += (w.space.dims[d] - 1) * w.space.strides[k][d];
  return r;
}

inline World make_world(const std::string& text, const Space& space, uint64_t seed) {
  World w;
  auto parsed = parse(text);
  EXPECT_TRUE(parsed.ok()) << text << (parsed.ok() ? "" : parsed.error().text());
  if (!parsed.ok()) abort();
  w.program = *parsed;
  w.space = space;
  for (int64_t d : space.dims) w.count *= d;
  for (size_t d = space.dims.size() - static_cast<size_t>(space.reduced); d < space.dims.size(); ++d)
    w.reduce_count *= space.dims[d];
  for (size_t k = 0; k < w.program.inputs.size(); ++k) {
    const DType t = w.program.inputs[k];
    const int64_t n = reach(w, k);
    w.inputs.emplace_back(n * dtype_size(t));
    for (int64_t i = 0; i < n; ++i) {
      const double u = static_cast<double>(next(&seed) >> 40) * 0x1p-24;
      const double v = is_float(t)         ? (u - 0.5) * 6
                       : t == DType::kBool ? u > 0.5
                                           : std::floor(u * 100) - (is_signed(t) ? 50 : 0);
      write(t, w.inputs.back().as<void>(), i, v);
    }
  }
  for (size_t k = 0; k < w.program.outputs.size(); ++k) {
    bool reduced = false;
    for (const Instruction& i : w.program.code) reduced |= is_reduction(i.op) && i.index == static_cast<int>(k);
    w.outputs.emplace_back((reduced ? w.count / w.reduce_count : w.count) * dtype_size(w.program.outputs[k]));
  }
  return w;
}

// Runs all tasks, in reverse order with `backwards`, each with newly poisoned scratch.
inline void run(const World& w, Isa isa, bool backwards, std::vector<const void*> in = {}) {
  auto plan = make_plan(w.program, w.space, isa);
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  std::vector<void*> out;
  if (in.empty()) {
    for (const Guarded& g : w.inputs) in.push_back(g.as<void>());
  }
  for (const Guarded& g : w.outputs) out.push_back(g.as<void>());
  const Guarded workspace((workspace_bytes(*plan) + 15) / 16 * 16);
  const Args args{in.data(), out.data(), workspace.as<void>()};
  for (int64_t k = 0; k < task_count(*plan); ++k) {
    const Guarded scratch((scratch_bytes(*plan) + 63) / 64 * 64);
    run_task(*plan, args, backwards ? task_count(*plan) - 1 - k : k, scratch.as<void>());
  }
  finish(*plan, args);
}

inline void check(const World& w, double tolerance, const std::string& what) {
  const Code& p = w.program;
  std::vector<double> r(static_cast<size_t>(p.registers()));
  std::vector<std::vector<double>> gathered(p.code.size());
  std::vector<int64_t> at(w.space.dims.size(), 0);
  const auto expect = [&](int output, int64_t index, double want, double scale) {
    const DType t = p.outputs[static_cast<size_t>(output)];
    const double got = read(t, w.outputs[static_cast<size_t>(output)].as<void>(), index);
    const double slack = is_float(t) ? (tolerance + 2 * unit_roundoff(t)) * (std::abs(want) + scale) : 0;
    ASSERT_TRUE(std::abs(got - want) <= slack || (std::isnan(got) && std::isnan(want)) || got == want)
        << what << "\n"
        << print(p) << "\noutput " << output << "[" << index << "] is " << got << ", not " << want;
  };
  for (int64_t flat = 0; flat < w.count; ++flat) {
    for (size_t k = 0; k < p.code.size(); ++k) {
      const Instruction& i = p.code[k];
      const auto src = [&](int s) { return r[static_cast<size_t>(i.src[s])]; };
      double v = 0;
      if (i.op == Op::kLoad) {
        int64_t offset = 0;
        for (size_t d = 0; d < at.size(); ++d) offset += at[d] * w.space.strides[static_cast<size_t>(i.index)][d];
        v = read(p.inputs[static_cast<size_t>(i.index)], w.inputs[static_cast<size_t>(i.index)].as<void>(), offset);
      } else if (i.op == Op::kConst) {
        v = i.type == Type::kF32 ? static_cast<double>(i.imm[0]) : static_cast<double>(i.whole);
      } else if (i.op == Op::kStore) {
        expect(i.index, flat, src(0), 1);
        if (testing::Test::HasFatalFailure()) return;
        continue;
      } else if (is_reduction(i.op)) {
        gathered[k].push_back(src(0));
        if (static_cast<int64_t>(gathered[k].size()) == w.reduce_count) {
          double scale = 0;
          for (double x : gathered[k]) scale += std::abs(x);
          if (i.op == Op::kReduceMax || i.op == Op::kReduceMin) scale = 0;
          if (i.op == Op::kReduceProd) scale = 0.02 * std::sqrt(static_cast<double>(w.reduce_count));  // of n roundings
          if (i.op == Op::kReduceMean) scale /= static_cast<double>(w.reduce_count);
          scale += 1e-3;  // the elements carry absolute errors of their own
          expect(i.index, flat / w.reduce_count, reduce64(i.op, gathered[k]), std::min(scale, 1e4));
          if (testing::Test::HasFatalFailure()) return;
          gathered[k].clear();
        }
        continue;
      } else if (i.op == Op::kMulAdd) {
        v = src(0) * src(1) + src(2);
      } else if (i.op == Op::kSelect) {
        v = src(0) != 0 ? src(1) : src(2);
      } else {
        v = op_row(i.op).registers == 1 ? unary64(i, src(0)) : binary64(i.op, src(0), src(1));
      }
      r[static_cast<size_t>(i.dst)] = v;
    }
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < w.space.dims[d]) break;
      at[d] = 0;
    }
  }
}

inline void check_everywhere(const std::string& text, const Space& space, double tolerance = 2e-6) {
  for (Isa isa : isas()) {
    World w = make_world(text, space, 7);
    run(w, isa, false);
    check(w, tolerance, std::string(isa_name(isa)));
    if (testing::Test::HasFatalFailure()) return;
    World again = make_world(text, space, 7);
    run(again, isa, true);
    for (size_t k = 0; k < w.outputs.size(); ++k) {
      auto plan = make_plan(w.program, space, isa);
      bool reduced = false;
      for (const Instruction& i : w.program.code) reduced |= is_reduction(i.op) && i.index == static_cast<int>(k);
      const int64_t bytes = (reduced ? w.count / w.reduce_count : w.count) * dtype_size(w.program.outputs[k]);
      EXPECT_EQ(memcmp(w.outputs[k].as<void>(), again.outputs[k].as<void>(), static_cast<size_t>(bytes)), 0)
          << "order of tasks";
    }
  }
}

inline std::vector<int64_t> dense(const std::vector<int64_t>& dims) { return *broadcast_strides(dims, dims); }

}  // namespace peri::kernels::cpu::block
