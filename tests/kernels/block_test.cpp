// Block programs: text form, refusal of bad programs, values against double arithmetic over many spaces, tails, aliases
// and any order of tasks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cpu/block/plan.hpp"
#include "tests/kernels/guarded_bytes.hpp"

namespace peri::kernels::cpu::block {
namespace {

using Guarded = tests::GuardedBytes;

std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (runs_here(isa)) list.push_back(isa);
  }
  return list;
}

// One value of any register type, in double (integers here stay below 2^53).
double unary64(const Instruction& i, double x) {
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
double binary64(Op op, double x, double y) {
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
double reduce64(Op op, const std::vector<double>& v) {
  double sum = 0, squares = 0, prod = 1, most = -INFINITY, least = INFINITY, exps = 0;
  for (double x : v) sum += x, squares += x * x, prod *= x, most = std::max(most, x), least = std::min(least, x);
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

double read(DType t, const void* p, int64_t i) {
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
void write(DType t, void* p, int64_t i, double v) {
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
  Program program;
  Space space;
  std::vector<Guarded> inputs, outputs;
  int64_t count = 1, reduce_count = 1;
};

uint64_t next(uint64_t* state) { return *state = *state * 6364136223846793005u + 1442695040888963407u; }

int64_t reach(const World& w, size_t k) {
  int64_t r = 1;
  for (size_t d = 0; d < w.space.dims.size(); ++d) r += (w.space.dims[d] - 1) * w.space.strides[k][d];
  return r;
}

World make_world(const std::string& text, const Space& space, uint64_t seed) {
  World w;
  auto parsed = parse(text);
  EXPECT_TRUE(parsed.ok()) << text << (parsed.ok() ? "" : parsed.error().text());
  if (!parsed.ok()) abort();
  w.program = *parsed;
  w.space = space;
  for (int64_t d : space.dims) w.count *= d;
  for (size_t d = space.dims.size() - static_cast<size_t>(space.reduced); d < space.dims.size(); ++d) w.reduce_count *= space.dims[d];
  for (size_t k = 0; k < w.program.inputs.size(); ++k) {
    const DType t = w.program.inputs[k];
    const int64_t n = reach(w, k);
    w.inputs.emplace_back(n * dtype_size(t));
    for (int64_t i = 0; i < n; ++i) {
      const double u = static_cast<double>(next(&seed) >> 40) * 0x1p-24;
      const double v = is_float(t) ? (u - 0.5) * 6 : t == DType::kBool ? u > 0.5 : std::floor(u * 100) - (is_signed(t) ? 50 : 0);
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

// Runs all tasks, last first when `backwards`, each with fresh poisoned scratch.
void run(const World& w, Isa isa, bool backwards, std::vector<const void*> in = {}) {
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

void check(const World& w, double tolerance, const std::string& what) {
  const Program& p = w.program;
  std::vector<double> r(static_cast<size_t>(p.registers()));
  std::vector<std::vector<double>> gathered(p.code.size());
  std::vector<int64_t> at(w.space.dims.size(), 0);
  const auto expect = [&](int output, int64_t index, double want, double scale) {
    const DType t = p.outputs[static_cast<size_t>(output)];
    const double got = read(t, w.outputs[static_cast<size_t>(output)].as<void>(), index);
    const double slack = is_float(t) ? (tolerance + 2 * unit_roundoff(t)) * (std::abs(want) + scale) : 0;
    ASSERT_TRUE(std::abs(got - want) <= slack || (std::isnan(got) && std::isnan(want)) || got == want)
        << what << "\n" << print(p) << "\noutput " << output << "[" << index << "] is " << got << ", not " << want;
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

void check_everywhere(const std::string& text, const Space& space, double tolerance = 2e-6) {
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
      EXPECT_EQ(memcmp(w.outputs[k].as<void>(), again.outputs[k].as<void>(), static_cast<size_t>(bytes)), 0) << "order of tasks";
    }
  }
}

std::vector<int64_t> dense(const std::vector<int64_t>& dims) { return *broadcast_strides(dims, dims); }

TEST(BlockTest, TextFormParsesBack) {
  const std::string text =
      "in f32 f16 i64 bool; out f32 i64 f32; r0=load 0; r1=load 1; r2=const.f32 0.5; r3=muladd r0 r1 r2; "
      "r4=clip r3 0 6; r5=load 2; r6=const.i64 -3; r7=mul r5 r6; r8=load 3; r9=select r8 r4 r3; r10=cast.i64 r9; "
      "r11=add r10 r7; store 1 r11; store 0 r9; reduce.sum 2 r4";
  auto p = parse(text);
  ASSERT_TRUE(p.ok()) << p.error().text();
  EXPECT_EQ(print(*p), text);
}

TEST(BlockTest, BadProgramsAreRefused) {
  const char* bad[] = {
      "",
      "in f32",
      "in f32; out f32",
      "in f32; out f32; r0=load 0",                                     // never stored
      "in f32; out f32; r0=load 1; store 0 r0",                         // no such input
      "in f32; out f32; r0=load -1; store 0 r0",
      "in f32; out f32; r0=load 0; store 1 r0",                         // no such output
      "in f32; out f32; r0=load 0; store 0 r1",                         // not set
      "in f32; out f32; r0=load 0; r0=exp r0; store 0 r0",              // set twice
      "in f32; out f32; r0=load 0; r2=exp r0; store 0 r2",              // out of order
      "in f32; out f32; r0=exp r0; store 0 r0",                         // reads itself
      "in f32; out f32; r0=load 0; store 0 r0; store 0 r0",             // stored twice
      "in i64; out f32; r0=load 0; store 0 r0",                         // types
      "in i64; out i64; r0=load 0; r1=exp r0; store 0 r1",
      "in f32 i64; out f32; r0=load 0; r1=load 1; r2=add r0 r1; store 0 r2",
      "in f32; out f32; r0=load 0; r1=select r0 r0 r0; store 0 r1",
      "in i32; out i32; r0=load 0; reduce.sum 0 r0",
      "in string; out f32; r0=load 0; store 0 r0",
      "in f32; out f32; r0=load 0; r1=frob r0; store 0 r1",
      "in f32; out f32; r0=load 0; r1=add r0; store 0 r1",
      "in f32; out f32; r0=load 0; r1=exp r0 r0; store 0 r1",
      "in f32; out f32; r0=load 0; r99999999999999999999=exp r0; store 0 r0",
  };
  for (const char* text : bad) EXPECT_FALSE(parse(text).ok()) << text;
  Program p;
  p.inputs = p.outputs = {DType::kF32};
  Instruction i;
  i.op = static_cast<Op>(200);
  i.dst = 0;
  p.code = {i};
  EXPECT_FALSE(verify(&p).ok());
}

TEST(BlockTest, BadSpacesAreRefused) {
  const Program p = *parse("in f32; out f32; r0=load 0; store 0 r0");
  EXPECT_FALSE(make_plan(p, {{4}, 0, {}}, Isa::kAvx2).ok());
  EXPECT_FALSE(make_plan(p, {{4}, 0, {{1, 1}}}, Isa::kAvx2).ok());
  EXPECT_FALSE(make_plan(p, {{4}, 1, {{1}}}, Isa::kAvx2).ok());
  EXPECT_FALSE(make_plan(p, {{4}, 2, {{1}}}, Isa::kAvx2).ok());
  EXPECT_FALSE(make_plan(p, {{-4}, 0, {{1}}}, Isa::kAvx2).ok());
  EXPECT_FALSE(make_plan(p, {{4}, 0, {{-1}}}, Isa::kAvx2).ok());
  EXPECT_FALSE(make_plan(p, {{int64_t{1} << 40, int64_t{1} << 40}, 0, {{1, 1}}}, Isa::kAvx2).ok());
  EXPECT_FALSE(make_plan(p, {{4, 4}, 0, {{int64_t{1} << 62, 1}}}, Isa::kAvx2).ok());
  EXPECT_FALSE(broadcast_strides({2, 3}, {3}).ok());
  EXPECT_FALSE(broadcast_strides({2}, {3}).ok());
}

TEST(BlockTest, EveryOp) {
  const char* unary[] = {"sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "tanh", "erf", "sigmoid", "sin", "cos",
                         "round", "floor", "ceil", "trunc", "sign", "relu", "silu", "gelu", "gelu_tanh", "hard_swish",
                         "softplus", "mish", "square", "neg", "abs"};
  for (int64_t n : {1, 7, 16, 45, 1500}) {
    for (const char* op : unary) {
      check_everywhere("in f32; out f32; r0=load 0; r1=" + std::string(op) + " r0; store 0 r1", {{n}, 0, {{1}}});
      check_everywhere("in f32 f32; out f32; r0=load 0; r1=load 1; r2=sub r0 r1; r3=" + std::string(op) + " r2; store 0 r3",
                       {{n}, 0, {{1}, {1}}}, 1e-5);
    }
    for (const char* op : {"leaky_relu r0 0.1", "elu r0 1.5", "hard_sigmoid r0 0.2 0.5", "clip r0 -1 0.75"})
      check_everywhere("in f32; out f32; r0=load 0; r1=" + std::string(op) + "; store 0 r1", {{n}, 0, {{1}}});
    for (const char* op : {"add", "sub", "mul", "max", "min", "div", "prelu", "pow"}) {
      const std::string o = op;
      check_everywhere("in f32 f32; out f32; r0=load 0; r1=load 1; r2=abs r0; r3=" + o + " r2 r1; store 0 r3", {{n}, 0, {{1}, {1}}});
      check_everywhere("in f32; out f32; r0=load 0; r1=const.f32 1.5; r2=" + o + " r1 r0; store 0 r2", {{n}, 0, {{1}}});
      check_everywhere("in f32 f32; out f32; r0=load 0; r1=load 1; r2=abs r0; r3=" + o + " r2 r1; store 0 r3", {{n}, 0, {{1}, {0}}});
    }
    for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      const std::string o = op;
      check_everywhere("in f32; out bool; r0=load 0; r1=const.f32 0.25; r2=" + o + " r0 r1; store 0 r2", {{n}, 0, {{1}}});
      check_everywhere("in i64 i64 f32; out f32; r0=load 0; r1=load 1; r2=" + o + " r0 r1; r3=load 2; r4=const.f32 7; "
                       "r5=select r2 r3 r4; store 0 r5", {{n}, 0, {{1}, {1}, {1}}});
    }
    for (const char* op : {"and", "or", "xor", "eq", "ne"})
      check_everywhere("in bool bool; out bool; r0=load 0; r1=load 1; r2=not r1; r3=" + std::string(op) + " r0 r2; store 0 r3",
                       {{n}, 0, {{1}, {1}}});
    for (const char* type : {"i32", "i64"}) {
      for (const char* op : {"add", "sub", "mul", "max", "min"}) {
        const std::string t = type;
        check_everywhere("in " + t + " " + t + "; out " + t + "; r0=load 0; r1=load 1; r2=neg r1; r3=" + op + " r0 r2; store 0 r3",
                         {{n}, 0, {{1}, {1}}});
      }
    }
  }
}

TEST(BlockTest, EveryTypeLoadsConvertsAndStores) {
  for (int64_t n : {5, 333}) {
    for (const char* t : {"f32", "f64", "f16", "bf16"}) {
      const std::string s = t;
      check_everywhere("in " + s + "; out " + s + " f32; r0=load 0; r1=const.f32 2; r2=mul r0 r1; store 0 r2; store 1 r0", {{n}, 0, {{1}}}, 1e-3);
      check_everywhere("in " + s + " f32; out " + s + "; r0=load 0; r1=load 1; r2=add r0 r1; store 0 r2", {{3, n}, 0, {{0, 1}, {1, 3}}}, 1e-2);
    }
    for (const char* t : {"i8", "u8", "i16", "u16", "i32", "i64", "bool"}) {
      const std::string s = t;
      check_everywhere("in " + s + "; out " + s + " f32; r0=load 0; r1=cast.f32 r0; store 0 r0; store 1 r1", {{n}, 0, {{1}}});
      check_everywhere("in f32; out bool i32 i64; r0=load 0; r1=cast.bool r0; r2=cast.i32 r0; r3=cast.i64 r0; store 0 r1; store 1 r2; store 2 r3",
                       {{n}, 0, {{1}}});
    }
  }
}

TEST(BlockTest, ChainsOverManySpaces) {
  const std::string chain =
      "in f32 f32 f32; out f32; r0=load 0; r1=load 1; r2=load 2; r3=mul r0 r1; r4=add r3 r2; r5=tanh r4; r6=mul r5 r0; "
      "r7=add r6 r1; r8=relu r7; store 0 r8";
  struct Shape {
    std::vector<int64_t> dims, a, b, c;
  };
  const Shape shapes[] = {
      {{1}, {1}, {1}, {1}},
      {{5000}, {5000}, {1}, {5000}},
      {{3, 700}, {3, 700}, {700}, {3, 1}},
      {{2, 3, 49}, {2, 3, 49}, {3, 1}, {1}},
      {{2, 5, 7, 7}, {2, 5, 7, 7}, {5, 1, 1}, {2, 1, 1, 1}},
      {{4, 9, 64}, {4, 9, 64}, {64}, {9, 64}},
      {{130, 13}, {130, 13}, {13}, {130, 1}},
      {{2, 1, 300, 5}, {2, 1, 300, 5}, {300, 5}, {1, 1, 1, 5}},
      {{3, 4, 1, 5, 600}, {3, 4, 1, 5, 600}, {4, 1, 1, 1}, {5, 1}},
      {{70000}, {70000}, {70000}, {70000}},
  };
  for (const Shape& s : shapes) {
    Space space{s.dims, 0, {*broadcast_strides(s.a, s.dims), *broadcast_strides(s.b, s.dims), *broadcast_strides(s.c, s.dims)}};
    check_everywhere(chain, space, 4e-6);
  }
  // Transposed and strided reads.
  check_everywhere(chain, {{31, 67}, 0, {{1, 31}, {67, 1}, {134, 2}}}, 4e-6);
  check_everywhere(chain, {{4, 31, 300}, 0, {{9300, 1, 31}, {0, 300, 1}, {2, 0, 0}}}, 4e-6);
  check_everywhere(chain, {{0, 31}, 0, {{31, 1}, {31, 1}, {31, 1}}});
}

TEST(BlockTest, ReductionsOverManySpaces) {
  const char* ops[] = {"sum", "mean", "max", "min", "prod", "sum_square", "l2", "logsumexp"};
  struct Shape {
    std::vector<int64_t> dims;
    int reduced;
  };
  const Shape shapes[] = {{{1}, 1}, {{7, 1}, 1}, {{300, 1}, 1}, {{5, 9}, 1}, {{3, 768}, 1}, {{700, 16}, 1}, {{2, 3000}, 1},
                          {{200000}, 1}, {{3, 100, 500}, 2}, {{2, 3, 5, 7}, 2}, {{1100, 33}, 2}, {{6, 11, 130}, 2}, {{2, 40000}, 1}};
  for (const Shape& s : shapes) {
    for (const char* op : ops) {
      const std::string o = op;
      std::vector<int64_t> row(s.dims.size(), 0);
      row.back() = 1;
      const std::string scaled = o == "prod" ? "r3=const.f32 0.0001; r4=mul r2 r3; r5=const.f32 1; r6=add r4 r5; " : "r3=neg r2; r4=neg r3; r5=abs r4; r6=add r5 r2; ";
      check_everywhere("in f32 f32; out f32; r0=load 0; r1=load 1; r2=add r0 r1; " + scaled + "reduce." + o + " 0 r6",
                       {s.dims, s.reduced, {dense(s.dims), row}}, 4e-6);
    }
    check_everywhere("in f32 f32; out f32 f32 f16; r0=load 0; r1=load 1; r2=sub r0 r1; r3=exp r2; store 0 r3; reduce.max 1 r2; reduce.mean 2 r3",
                     {s.dims, s.reduced, {dense(s.dims), dense(s.dims)}}, 2e-6);
  }
}

TEST(BlockTest, ReductionsOfSpecials) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto p = parse("in f32; out f32 f32 f32 f32; r0=load 0; reduce.max 0 r0; reduce.min 1 r0; reduce.sum 2 r0; reduce.logsumexp 3 r0");
  for (Isa isa : isas()) {
    for (int64_t n : {3, 40, 5000}) {
      const auto plan = make_plan(*p, {{n}, 1, {{1}}}, isa);
      ASSERT_TRUE(plan.ok());
      const auto with = [&](float special, float rest) {
        std::vector<float> x(static_cast<size_t>(n), rest), out(4);
        x[static_cast<size_t>(n / 2)] = special;
        std::vector<char> scratch(static_cast<size_t>(scratch_bytes(*plan) + 64)), work(static_cast<size_t>(workspace_bytes(*plan) + 64));
        const void* in[] = {x.data()};
        void* outs[] = {&out[0], &out[1], &out[2], &out[3]};
        const Args args{in, outs, work.data()};
        for (int64_t k = 0; k < task_count(*plan); ++k) run_task(*plan, args, k, scratch.data());
        finish(*plan, args);
        return out;
      };
      for (float v : with(NAN, 1)) EXPECT_TRUE(std::isnan(v));
      EXPECT_EQ(with(inf, 1), (std::vector<float>{inf, 1, inf, inf}));
      EXPECT_EQ(with(-inf, -inf), (std::vector<float>{-inf, -inf, -inf, -inf}));
      EXPECT_EQ(with(-inf, 0)[0], 0);
      EXPECT_FLOAT_EQ(with(-inf, 0)[3], std::log(static_cast<float>(n - 1)));
    }
  }
}

TEST(BlockTest, AnOutputMayBeADenseInput) {
  const char* programs[] = {
      "in f32 f32; out f32; r0=load 0; r1=load 1; r2=exp r0; r3=add r2 r1; r4=mul r3 r0; store 0 r4",
      "in f32 f32; out f32 f32; r0=load 0; r1=load 1; r2=neg r0; store 0 r2; r3=add r0 r1; store 1 r3",
      "in f32 f32; out f32 f32; r0=load 0; r1=load 1; store 1 r0; r2=relu r1; r3=add r2 r0; store 0 r3",
  };
  for (Isa isa : isas()) {
    for (const char* text : programs) {
      const Space space{{5000}, 0, {{1}, {1}}};
      World apart = make_world(text, space, 3), together = make_world(text, space, 3);
      run(apart, isa, false);
      std::copy(together.inputs[0].as<float>(), together.inputs[0].as<float>() + 5000, together.outputs[0].as<float>());
      run(together, isa, false, {together.outputs[0].as<void>(), together.inputs[1].as<void>()});
      for (size_t k = 0; k < apart.outputs.size(); ++k)
        EXPECT_EQ(memcmp(apart.outputs[k].as<void>(), together.outputs[k].as<void>(), 20000), 0) << text << k;
    }
  }
}

}  // namespace
}  // namespace peri::kernels::cpu::block
