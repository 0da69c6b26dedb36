// Text form of block code, and the refusal of bad programs and spaces.
#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/block/plan.hpp"

namespace peri::kernels::cpu::block {
namespace {

TEST(BlockProgramTest, TextFormParsesBack) {
  const std::string text =
      "in f32 f16 i64 bool; out f32 i64 f32; r0=load 0; r1=load 1; r2=const.f32 0.5; r3=muladd r0 r1 r2; "
      "r4=clip r3 0 6; r5=load 2; r6=const.i64 -3; r7=mul r5 r6; r8=load 3; r9=select r8 r4 r3; r10=cast.i64 r9; "
      "r11=add r10 r7; store 1 r11; store 0 r9; reduce.sum 2 r4";
  auto p = parse(text);
  ASSERT_TRUE(p.ok()) << p.error().text();
  EXPECT_EQ(print(*p), text);
}

TEST(BlockProgramTest, BadProgramsAreRefused) {
  const char* bad[] = {
      "",
      "in f32",
      "in f32; out f32",
      "in f32; out f32; r0=load 0",              // never stored
      "in f32; out f32; r0=load 1; store 0 r0",  // no such input
      "in f32; out f32; r0=load -1; store 0 r0",
      "in f32; out f32; r0=load 0; store 1 r0",              // no such output
      "in f32; out f32; r0=load 0; store 0 r1",              // not set
      "in f32; out f32; r0=load 0; r0=exp r0; store 0 r0",   // set twice
      "in f32; out f32; r0=load 0; r2=exp r0; store 0 r2",   // out of order
      "in f32; out f32; r0=exp r0; store 0 r0",              // reads itself
      "in f32; out f32; r0=load 0; store 0 r0; store 0 r0",  // stored twice
      "in i64; out f32; r0=load 0; store 0 r0",              // types
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
  Code p;
  p.inputs = p.outputs = {DType::kF32};
  Instruction i;
  i.op = static_cast<Op>(200);
  i.dst = 0;
  p.code = {i};
  EXPECT_FALSE(verify(&p).ok());
}

TEST(BlockProgramTest, BadSpacesAreRefused) {
  const Code p = *parse("in f32; out f32; r0=load 0; store 0 r0");
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

}  // namespace
}  // namespace peri::kernels::cpu::block
