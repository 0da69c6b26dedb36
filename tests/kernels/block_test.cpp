// Block code against double arithmetic: every op and type, many spaces, tails, aliases, any order of tasks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/block_oracle.hpp"

namespace peri::kernels::cpu::block {
namespace {

TEST(BlockTest, EveryOp) {
  const char* unary[] = {"sqrt", "rsqrt",     "reciprocal", "exp",      "expm1", "log",    "tanh", "erf",  "sigmoid",
                         "sin",  "cos",       "round",      "floor",    "ceil",  "trunc",  "sign", "relu", "silu",
                         "gelu", "gelu_tanh", "hard_swish", "softplus", "mish",  "square", "neg",  "abs"};
  for (int64_t n : {1, 7, 16, 45, 1500}) {
    for (const char* op : unary) {
      check_everywhere("in f32; out f32; r0=load 0; r1=" + std::string(op) + " r0; store 0 r1", {{n}, 0, {{1}}});
      check_everywhere(
          "in f32 f32; out f32; r0=load 0; r1=load 1; r2=sub r0 r1; r3=" + std::string(op) + " r2; store 0 r3",
          {{n}, 0, {{1}, {1}}}, 1e-5);
    }
    for (const char* op : {"leaky_relu r0 0.1", "elu r0 1.5", "hard_sigmoid r0 0.2 0.5", "clip r0 -1 0.75"})
      check_everywhere("in f32; out f32; r0=load 0; r1=" + std::string(op) + "; store 0 r1", {{n}, 0, {{1}}});
    for (const char* op : {"add", "sub", "mul", "max", "min", "div", "prelu", "pow"}) {
      const std::string o = op;
      check_everywhere("in f32 f32; out f32; r0=load 0; r1=load 1; r2=abs r0; r3=" + o + " r2 r1; store 0 r3",
                       {{n}, 0, {{1}, {1}}});
      check_everywhere("in f32; out f32; r0=load 0; r1=const.f32 1.5; r2=" + o + " r1 r0; store 0 r2", {{n}, 0, {{1}}});
      check_everywhere("in f32 f32; out f32; r0=load 0; r1=load 1; r2=abs r0; r3=" + o + " r2 r1; store 0 r3",
                       {{n}, 0, {{1}, {0}}});
    }
    for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      const std::string o = op;
      check_everywhere("in f32; out bool; r0=load 0; r1=const.f32 0.25; r2=" + o + " r0 r1; store 0 r2",
                       {{n}, 0, {{1}}});
      check_everywhere("in i64 i64 f32; out f32; r0=load 0; r1=load 1; r2=" + o +
                           " r0 r1; r3=load 2; r4=const.f32 7; "
                           "r5=select r2 r3 r4; store 0 r5",
                       {{n}, 0, {{1}, {1}, {1}}});
    }
    for (const char* op : {"and", "or", "xor", "eq", "ne"})
      check_everywhere(
          "in bool bool; out bool; r0=load 0; r1=load 1; r2=not r1; r3=" + std::string(op) + " r0 r2; store 0 r3",
          {{n}, 0, {{1}, {1}}});
    for (const char* type : {"i32", "i64"}) {
      for (const char* op : {"add", "sub", "mul", "max", "min"}) {
        const std::string t = type;
        check_everywhere(
            "in " + t + " " + t + "; out " + t + "; r0=load 0; r1=load 1; r2=neg r1; r3=" + op + " r0 r2; store 0 r3",
            {{n}, 0, {{1}, {1}}});
      }
    }
  }
}

TEST(BlockTest, EveryTypeLoadsConvertsAndStores) {
  for (int64_t n : {5, 333}) {
    for (const char* t : {"f32", "f64", "f16", "bf16"}) {
      const std::string s = t;
      check_everywhere(
          "in " + s + "; out " + s + " f32; r0=load 0; r1=const.f32 2; r2=mul r0 r1; store 0 r2; store 1 r0",
          {{n}, 0, {{1}}}, 1e-3);
      check_everywhere("in " + s + " f32; out " + s + "; r0=load 0; r1=load 1; r2=add r0 r1; store 0 r2",
                       {{3, n}, 0, {{0, 1}, {1, 3}}}, 1e-2);
    }
    for (const char* t : {"i8", "u8", "i16", "u16", "i32", "i64", "bool"}) {
      const std::string s = t;
      check_everywhere("in " + s + "; out " + s + " f32; r0=load 0; r1=cast.f32 r0; store 0 r0; store 1 r1",
                       {{n}, 0, {{1}}});
      check_everywhere(
          "in f32; out bool i32 i64; r0=load 0; r1=cast.bool r0; r2=cast.i32 r0; r3=cast.i64 r0; store 0 r1; store 1 "
          "r2; store 2 r3",
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
    Space space{
        s.dims, 0, {*broadcast_strides(s.a, s.dims), *broadcast_strides(s.b, s.dims), *broadcast_strides(s.c, s.dims)}};
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
  const Shape shapes[] = {{{1}, 1},        {{7, 1}, 1},       {{300, 1}, 1},  {{5, 9}, 1},        {{3, 768}, 1},
                          {{700, 16}, 1},  {{2, 3000}, 1},    {{200000}, 1},  {{3, 100, 500}, 2}, {{2, 3, 5, 7}, 2},
                          {{1100, 33}, 2}, {{6, 11, 130}, 2}, {{2, 40000}, 1}};
  for (const Shape& s : shapes) {
    for (const char* op : ops) {
      const std::string o = op;
      std::vector<int64_t> row(s.dims.size(), 0);
      row.back() = 1;
      const std::string scaled = o == "prod" ? "r3=const.f32 0.0001; r4=mul r2 r3; r5=const.f32 1; r6=add r4 r5; "
                                             : "r3=neg r2; r4=neg r3; r5=abs r4; r6=add r5 r2; ";
      check_everywhere("in f32 f32; out f32; r0=load 0; r1=load 1; r2=add r0 r1; " + scaled + "reduce." + o + " 0 r6",
                       {s.dims, s.reduced, {dense(s.dims), row}}, 4e-6);
    }
    check_everywhere(
        "in f32 f32; out f32 f32 f16; r0=load 0; r1=load 1; r2=sub r0 r1; r3=exp r2; store 0 r3; reduce.max 1 r2; "
        "reduce.mean 2 r3",
        {s.dims, s.reduced, {dense(s.dims), dense(s.dims)}}, 2e-6);
  }
}

TEST(BlockTest, ReductionsOfSpecials) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto p = parse(
      "in f32; out f32 f32 f32 f32; r0=load 0; reduce.max 0 r0; reduce.min 1 r0; reduce.sum 2 r0; reduce.logsumexp 3 "
      "r0");
  for (Isa isa : isas()) {
    for (int64_t n : {3, 40, 5000}) {
      const auto plan = make_plan(*p, {{n}, 1, {{1}}}, isa);
      ASSERT_TRUE(plan.ok());
      const auto with = [&](float special, float rest) {
        std::vector<float> x(static_cast<size_t>(n), rest), out(4);
        x[static_cast<size_t>(n / 2)] = special;
        std::vector<char> scratch(static_cast<size_t>(scratch_bytes(*plan) + 64)),
            work(static_cast<size_t>(workspace_bytes(*plan) + 64));
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
