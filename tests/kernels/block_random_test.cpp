// Seeded random block code over random spaces equal double arithmetic, and programs broken at random are refused or
// run safely: lowering, chains and scratch sharing meet shapes nobody thought of.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/kernels/block_oracle.hpp"

namespace peri::kernels::cpu::block {
namespace {

constexpr uint64_t kSeed = 20261121;

int pick(uint64_t* state, int n) { return static_cast<int>((next(state) >> 33) % static_cast<uint64_t>(n)); }

// Each op is followed by one that keeps values small, so that errors stay within the bound whatever the chain.
std::string random_program(uint64_t* state, int reduced) {
  const char* calm[] = {"tanh", "sigmoid", "erf", "sin", "cos"};
  const char* unary[] = {"abs", "neg", "relu", "square", "silu", "gelu"};
  const char* binary[] = {"add", "sub", "max", "min", "mul"};
  const int length = 1 + pick(state, 20);
  std::string text = "in f32 f32 f16; out f32 f32 f16; r0=load 0; r1=load 1; r2=load 2; r3=const.f32 0.75; ";
  int n = 4;
  std::vector<int> small = {0, 1, 2, 3};  // registers of small values: operands
  for (int k = 0; k < length; ++k) {
    const auto any = [&] { return small[static_cast<size_t>(pick(state, static_cast<int>(small.size())))]; };
    const int a = any(), b = any(), c = any();
    switch (pick(state, 4)) {
      case 0: text += format("r%d=%s r%d; ", n, unary[pick(state, 6)], a); break;
      case 1: text += format("r%d=muladd r%d r%d r%d; ", n, a, b, c); break;
      case 2:
        text += format("r%d=mul r%d r%d; r%d=add r%d r%d; ", n, a, b, n + 1, c, n);
        ++n;
        break;
      default: text += format("r%d=%s r%d r%d; ", n, binary[pick(state, 5)], a, b); break;
    }
    text += format("r%d=%s r%d; ", n + 1, calm[pick(state, 5)], n);
    small.push_back(n + 1);
    n += 2;
  }
  if (reduced > 0)
    return text + format("reduce.mean 0 r%d; store 1 r%d; reduce.max 2 r%d", n - 1, n - 3, pick(state, n));
  return text + format("store 0 r%d; store 1 r%d; store 2 r%d", n - 1, pick(state, n), n - 2);
}

Space random_space(uint64_t* state, int reduced) {
  const int sizes[] = {1, 2, 3, 5, 7, 16, 49, 130, 300, 1100};
  Space space;
  space.reduced = reduced;
  int64_t count = 1;
  for (int d = 0; d < std::max(1 + pick(state, 4), reduced); ++d) {
    int64_t n = sizes[pick(state, 10)];
    if (count * n > 20000) n = 2;
    count *= n;
    space.dims.push_back(n);
  }
  for (int k = 0; k < 3; ++k) {
    std::vector<int64_t> shape = space.dims;
    for (int64_t& n : shape) n = k > 0 && pick(state, 2) == 0 ? 1 : n;
    space.strides.push_back(*broadcast_strides(shape, space.dims));
    if (pick(state, 6) == 0) {
      for (int64_t& s : space.strides.back()) s *= 2;  // strided rows
    }
  }
  return space;
}

TEST(BlockRandomTest, RandomProgramsEqualDoubleArithmetic) {
  printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  uint64_t state = kSeed;
  for (int round = 0; round < 400; ++round) {
    const int reduced = pick(&state, 3) == 0 ? 1 + pick(&state, 2) : 0;
    const std::string text = random_program(&state, reduced);
    const Space space = random_space(&state, reduced);
    for (Isa isa : isas()) {
      World w = make_world(text, space, static_cast<uint64_t>(round));
      run(w, isa, round % 2 == 0);
      check(w, 1e-4, "round " + std::to_string(round) + " " + std::string(isa_name(isa)));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(BlockRandomTest, BrokenProgramsAreRefusedOrRunSafely) {
  printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  uint64_t state = kSeed;
  int ran = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = random_program(&state, 0);
    for (int k = 0; k < 1 + pick(&state, 3); ++k) {
      const size_t at = static_cast<size_t>(pick(&state, static_cast<int>(text.size())));
      const char* letters = "0123456789r=;. -efinaustdlogcx";
      if (pick(&state, 4) == 0) {
        text.erase(at, 1 + static_cast<size_t>(pick(&state, 9)));
      } else {
        text[at] = letters[pick(&state, 30)];
      }
      if (text.empty()) text = " ";
    }
    const auto program = parse(text);
    if (!program.ok()) continue;
    ++ran;
    std::vector<tests::GuardedBytes> memory;
    std::vector<const void*> in;
    std::vector<void*> out;
    Space space{{70, 3}, 0, std::vector<std::vector<int64_t>>(program->inputs.size(), {3, 1})};
    for (const Instruction& i : program->code) space.reduced |= is_reduction(i.op);
    for (DType t : program->inputs) in.push_back(memory.emplace_back(210 * dtype_size(t)).as<void>());
    for (DType t : program->outputs) out.push_back(memory.emplace_back(210 * dtype_size(t)).as<void>());
    for (Isa isa : isas()) {
      const auto plan = make_plan(*program, space, isa);
      if (!plan.ok()) continue;
      const tests::GuardedBytes scratch((scratch_bytes(*plan) + 63) / 64 * 64), work(workspace_bytes(*plan));
      for (int64_t t = 0; t < task_count(*plan); ++t)
        run_task(*plan, {in.data(), out.data(), work.as<void>()}, t, scratch.as<void>());
      finish(*plan, {in.data(), out.data(), work.as<void>()});
    }
  }
  EXPECT_GT(ran, 100);
}

}  // namespace
}  // namespace peri::kernels::cpu::block
