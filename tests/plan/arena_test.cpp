// Arena plans of random programs: nothing alive at once overlaps, between the bytes alive at once and the sum of all.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.hpp"
#include "plan/memory.hpp"
#include "plan/sizes.hpp"
#include "tests/plan/programs.hpp"

namespace peri::plan {
namespace {

uint64_t next(uint64_t* state) {
  *state += 0x9e3779b97f4a7c15u;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// A chain of steps; each reads up to three earlier results, some results are views of an earlier one.
Program random_program(uint64_t seed) {
  tests::ProgramMaker m;
  m.p.dims = {"n"};
  std::vector<int32_t> made = {m.input("x", DType::kF32, "[n,8]")};
  const size_t steps = 1 + next(&seed) % 40;
  for (size_t k = 0; k < steps; ++k) {
    std::vector<int32_t> reads;
    for (uint64_t r = 0; r < 1 + next(&seed) % 3; ++r)
      reads.push_back(made[made.size() - 1 - next(&seed) % std::min<size_t>(made.size(), 6)]);
    const int32_t y = m.scratch("t", DType::kF32, "[n," + std::to_string(1 + next(&seed) % 50) + "]");
    m.step("s", reads, {y});
    made.push_back(y);
    if (next(&seed) % 4 == 0) {
      const int32_t view = m.scratch("v", DType::kF32, shape_text(m.p.buffers[static_cast<size_t>(y)].shape));
      m.p.buffers.back().alias_of = y;
      made.push_back(view);
    }
  }
  m.output("y", made.back());
  return m.p;
}

TEST(Arena, RandomPrograms) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const Program p = random_program(seed);
    ASSERT_TRUE(check_program(p, 0).ok()) << check_program(p, 0).error().text();
    for (int64_t n : {1, 3, 1000}) {
      const auto plan = plan_arena(p, {{"n", n}});
      ASSERT_TRUE(plan.ok()) << plan.error().text();
      int64_t sum = 0;
      for (size_t k = 0; k < p.buffers.size(); ++k)
        if (p.buffers[k].alias_of < 0 && p.buffers[k].kind == BufferKind::kScratch)
          sum += (plan->bytes[k] + 63) / 64 * 64;
      EXPECT_GE(plan->arena_bytes, plan->largest_live_bytes);
      EXPECT_LE(plan->arena_bytes, sum);
      EXPECT_EQ(plan_arena(p, {{"n", n}})->offset, plan->offset);
    }
  }
}

// Everything of it on a device, over `lanes` lanes in turn, each step behind the one before.
Program on_device(Program p, uint32_t lanes) {
  p.devices = {"host", "null"};
  for (Buffer& b : p.buffers) b.device = 1;
  for (size_t k = 0; k < p.steps.size(); ++k) {
    Step& s = p.steps[k];
    s.device = 1;
    s.lane = static_cast<uint32_t>(k) % lanes;
    if (k > 0 && lanes > 1) s.waits_for = {static_cast<int32_t>(k) - 1};
  }
  return p;
}

TEST(Arena, WorkspacesLieBesideAllThatLivesInTheirStep) {
  int64_t grown = 0, inside = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    const Program p = on_device(random_program(seed), 1 + seed % 3);
    const ProgramSizes sizes = compile_sizes(p);
    const std::vector<int64_t> values = sizes.table.values_of({{"n", 100}});
    Workspaces work;
    uint64_t state = seed;
    int64_t most = 0;
    for (size_t k = 0; k < p.steps.size(); ++k) {
      work.bytes.push_back(next(&state) % 3 == 0 ? 0 : static_cast<int64_t>(1 + next(&state) % 30000));
      most = std::max(most, work.bytes.back());
    }
    const auto plain = plan_arena(p, sizes, values);
    const auto plan = plan_arena(p, sizes, values, &work);
    ASSERT_TRUE(plain.ok() && plan.ok());
    const std::vector<Lifetime> life = lifetimes(p);
    for (size_t k = 0; k < p.steps.size(); ++k) {
      if (work.bytes[k] == 0) {
        EXPECT_EQ(work.offset[k], kUnbound);
        continue;
      }
      EXPECT_EQ(work.offset[k] % kWorkspaceAlignment, 0);
      EXPECT_LE(work.offset[k] + work.bytes[k], plan->device_bytes[1]);
      for (size_t b = 0; b < p.buffers.size(); ++b) {
        if (plan->offset[b] == kUnbound || p.buffers[b].alias_of >= 0) continue;
        if (life[b].first > static_cast<int32_t>(k) || life[b].last < static_cast<int32_t>(k)) continue;
        EXPECT_TRUE(work.offset[k] + work.bytes[k] <= plan->offset[b] ||
                    plan->offset[b] + plan->bytes[b] <= work.offset[k])
            << "step " << k << ", buffer " << b;
      }
    }
    (plan->device_bytes[1] > plain->device_bytes[1] ? grown : inside) += most > 0;
    const auto memory = device_memory(p, {{"n", 100}}, work.bytes);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ((*memory)[1].workspaces, plan->device_bytes[1] - plain->device_bytes[1]);
  }
  EXPECT_GT(grown, 0);
  EXPECT_GT(inside, 0);
}

// Steps of two lanes that nothing orders may run at once: their workspaces are apart. In one lane they are one.
TEST(Arena, WorkspacesOfStepsThatMayMeetAreApart) {
  for (const uint32_t lanes : {1U, 2U}) {
    tests::ProgramMaker m;
    const int32_t x = m.input("x", DType::kF32, "[4]");
    for (const char* name : {"a", "b"}) {
      const int32_t y = m.buffer(name, BufferKind::kOutput, DType::kF32, "[4]");
      m.step("s", {x}, {y});
      m.output(name, y);
    }
    Program p = on_device(m.p, 1);
    p.steps[1].lane = lanes - 1;
    const ProgramSizes sizes = compile_sizes(p);
    Workspaces work{{5000, 3000}, {}};
    const auto plan = plan_arena(p, sizes, sizes.table.values_of({}), &work);
    ASSERT_TRUE(plan.ok()) << plan.error().text();
    const bool meet = work.offset[0] < work.offset[1] + 3000 && work.offset[1] < work.offset[0] + 5000;
    EXPECT_EQ(meet, lanes == 1);
  }
}

// More buffers than can be compared in pairs: step by step, still checked, still shared.
TEST(Arena, LargeProgramsShareMemoryToo) {
  Rng rng(5);
  tests::ProgramMaker m;
  m.p.dims = {"n"};
  std::vector<int32_t> recent = {m.input("x", DType::kF32, "[n]")};
  for (int k = 0; k < 20000; ++k) {
    const int32_t to = m.scratch("", DType::kF32, "[" + std::to_string(1 + rng.below(64)) + "*n]");
    if (k % 7 == 0) m.p.buffers.back().alignment = 4096;
    m.step("a", {recent[static_cast<size_t>(rng.below(static_cast<int64_t>(recent.size())))]}, {to});
    if (recent.size() < 30)
      recent.push_back(to);
    else
      recent[1 + static_cast<size_t>(rng.below(29))] = to;
  }
  const auto plan = plan_arena(m.p, {{"n", 16}});  // checks what it made
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  EXPECT_GE(plan->arena_bytes, plan->largest_live_bytes);
  EXPECT_LE(plan->arena_bytes, 4 * plan->largest_live_bytes);
  ArenaPlan bad = *plan;
  for (int64_t& at : bad.offset)
    if (at != kUnbound) at = 0;
  EXPECT_FALSE(check_arena(m.p, bad).ok());
}

TEST(Arena, CheckFindsOverlapAndDisorder) {
  const Program p = tests::small_program().p;
  const ArenaPlan good = plan_arena(p, {{"batch", 8}}).value();
  ASSERT_TRUE(check_arena(p, good).ok());
  ArenaPlan bad = good;
  bad.offset[3] = bad.offset[2];
  EXPECT_FALSE(check_arena(p, bad).ok());
  bad = good;
  bad.offset[2] += 4;
  EXPECT_FALSE(check_arena(p, bad).ok());
  bad = good;
  bad.offset[3] = bad.arena_bytes;
  EXPECT_FALSE(check_arena(p, bad).ok());
}

TEST(Arena, SizesAndAliasesAreBounded) {
  Program p = tests::small_program().p;
  EXPECT_FALSE(plan_arena(p, {{"batch", INT64_MAX / 2}}).ok());
  const auto large = plan_arena(p, {{"batch", int64_t{1} << 40}});
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().kind, ErrorKind::kMemory);
  p.buffers[3].alias_of = 2;
  p.buffers[3].kind = BufferKind::kScratch;
  ASSERT_TRUE(plan_arena(p, {{"batch", 8}}).ok());
  for (int64_t offset : {4, 64, -64, 1 << 20}) {
    p.buffers[3].alias_offset = Dim(offset);
    EXPECT_FALSE(plan_arena(p, {{"batch", 8}}).ok()) << offset;
  }
  p.buffers[3].shape = {Dim(2), Dim(4)};
  p.buffers[3].bytes = Dim(32);
  p.buffers[3].alias_offset = Dim(64);
  EXPECT_EQ(plan_arena(p, {{"batch", 8}})->offset[3], plan_arena(p, {{"batch", 8}})->offset[2] + 64);
  p.buffers[3].alias_offset = Dim(4);
  EXPECT_FALSE(plan_arena(p, {{"batch", 8}}).ok()) << "not aligned";
}

TEST(Arena, DataDependentBuffersStandOutside) {
  Program p = tests::small_program().p;
  p.buffers[2].shape = {Dim::symbol("n")};
  p.buffers[2].bytes = Dim::symbol("n") * Dim(4);
  const ArenaPlan plan = plan_arena(p, {{"batch", 2}}).value();
  EXPECT_EQ(plan.offset[2], kUnbound);
  EXPECT_EQ(plan.bytes[2], kUnbound);
  EXPECT_EQ(plan.bytes[3], 32);
}

}  // namespace
}  // namespace peri::plan
