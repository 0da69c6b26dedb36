// Steps are gathered by place without a change to what any of them reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/hash.hpp"
#include "base/rng.hpp"
#include "lower/place.hpp"
#include "plan/order.hpp"
#include "plan/sizes.hpp"
#include "tests/plan/programs.hpp"

namespace peri::lower {
namespace {

using plan::BufferKind;
using plan::Program;
using plan::Step;
using tests::ProgramMaker;

size_t changes(const Program& p) {
  size_t out = 0;
  for (size_t k = 1; k < p.steps.size(); ++k) out += p.steps[k].device != p.steps[k - 1].device;
  return out;
}

// What lies in the memory of each output when every step leaves a hash of its name and of what it reads.
std::map<std::string, uint64_t> answers(const Program& p) {
  std::map<int32_t, uint64_t> memory;
  const auto at = [&](int32_t b) -> uint64_t& { return memory[plan::storage_of(p, b)]; };
  for (size_t k = 0; k < p.buffers.size(); ++k)
    if (const plan::Buffer& b = p.buffers[k]; b.kind == BufferKind::kInput || b.kind == BufferKind::kWeight)
      at(static_cast<int32_t>(k)) = hash_text(b.name);
  for (const Step& s : p.steps) {
    uint64_t value = hash_text(s.name);
    for (const int32_t b : s.reads) value = value * 0x9e3779b97f4a7c15U + at(b);
    if (s.executor == plan::kCopyExecutor) value = at(s.reads[0]);
    for (const int32_t b : s.writes) at(b) = value;
  }
  std::map<std::string, uint64_t> out;
  for (const plan::Port& port : p.outputs) out[port.name] = at(port.buffer);
  return out;
}

// Branches of a product on the device, a selection of the host whose count only the data says, a product of that.
Program detector(int64_t branches) {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kF32, "[n,8]");
  for (int64_t k = 0; k < branches; ++k) {
    const std::string name = std::to_string(k), dim = "d" + name;
    const int32_t score = m.scratch("score" + name, DType::kF32, "[n,1]");
    m.step("score" + name, {x}, {score});
    m.p.dims.push_back(dim);
    const int32_t found = m.scratch("found" + name, DType::kF32, "[" + dim + ",8]");
    m.step("select" + name, {x, score}, {found}).binds = {dim};
    const int32_t y = m.buffer("y" + name, BufferKind::kOutput, DType::kF32, "[" + dim + ",8]");
    m.output("y" + name, y);
    m.step("last" + name, {found}, {y}).depends_on = {dim};
  }
  return std::move(m.p);
}

TEST(LongRuns, BranchesGoSideBySide) {
  Program p = detector(40);
  ASSERT_TRUE(plan::check_program(p, 64).ok()) << plan::check_program(p, 64).error().text();
  const auto wanted = answers(p);
  place_steps({"null", "op2", 2}, &p);
  const Status checked = plan::check_program(p, 64);
  ASSERT_TRUE(checked.ok()) << checked.error().text();
  EXPECT_EQ(changes(p), 2U);  // scores, selections, the rest
  EXPECT_EQ(answers(p), wanted);
}

TEST(LongRuns, FewChangesStayAsTheyAre) {
  Program p = detector(3);
  place_steps({"null", "op2", 1}, &p);
  EXPECT_GT(changes(p), 4U);
  EXPECT_LT(changes(p), kManyChanges);
}

// Results in an argument's memory, views, steps that stay.
TEST(LongRuns, RandomProgramsGiveTheSame) {
  int64_t gathered = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    ProgramMaker m;
    m.p.dims = {"n"};
    std::vector<int32_t> made = {m.input("x", DType::kF32, "[n,8]"), m.weight("w", DType::kF32, {8})};
    for (int64_t k = 0; k < 90; ++k) {
      const std::string name = "t" + std::to_string(k);
      std::vector<int32_t> reads;
      for (int64_t r = 1 + rng.below(2); r > 0; --r)
        reads.push_back(made[static_cast<size_t>(rng.below(static_cast<int64_t>(made.size())))]);
      const bool output = rng.below(8) == 0;
      const int32_t y = m.buffer(name, output ? BufferKind::kOutput : BufferKind::kScratch, DType::kF32, "[n,8]");
      if (output) m.output(name, y);
      Step& s = m.step("op" + name, reads, {y});
      if (rng.below(3) == 0) {
        m.p.dims.push_back("d" + name);
        s.binds = {"d" + name};
      } else if (rng.below(2) == 0 && !m.p.steps.empty()) {
        for (const Step& earlier : m.p.steps)
          if (!earlier.binds.empty() && rng.below(9) == 0) s.depends_on = earlier.binds;
      }
      if (rng.below(4) == 0 && !output) {     // nothing reads y afterwards
        if (rng.below(2) == 0) {              // but for one that has to be done before its memory is taken
          const int32_t other = made.back();  // which may be ready later
          made.push_back(m.scratch("l" + name, DType::kF32, "[n,8]"));
          Step& look = m.step("look" + name, {y, other}, {made.back()});
          if (rng.below(2) == 0) {
            m.p.dims.push_back("e" + name);
            look.binds = {"e" + name};
          }
        }
        const int32_t taken = m.scratch("s" + name, DType::kF32, "[n,8]");
        m.p.buffers.back().alias_of = y;
        m.step("take" + name, {y}, {taken}).shares = {0};
        made.push_back(taken);
      } else {
        made.push_back(y);
      }
    }
    Program p = std::move(m.p);
    ASSERT_TRUE(plan::check_program(p, 64).ok()) << plan::check_program(p, 64).error().text();
    const auto wanted = answers(p);
    const auto origin = place_steps({"null", "op2", static_cast<uint32_t>(1 + seed % 3)}, &p);
    const Status checked = plan::check_program(p, 64);
    ASSERT_TRUE(checked.ok()) << checked.error().text();
    EXPECT_EQ(answers(p), wanted);
    std::vector<size_t> kept;
    for (const size_t k : origin)
      if (k != kNoStep) kept.push_back(k);
    gathered += !std::is_sorted(kept.begin(), kept.end());
  }
  EXPECT_GT(gathered, 10);
}

}  // namespace
}  // namespace peri::lower
