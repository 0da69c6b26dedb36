// Random programs moved to a device: they check, values cross by copies, what is ordered is ordered by the definition,
// and a wait that is taken away is missed exactly where nothing else orders the two steps.
#include <gtest/gtest.h>

#include <algorithm>

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

// Steps that read up to three of the last results; views, results in an argument's memory, weights, and steps that stay
// since they bind a dimension.
Program random_program(uint64_t seed) {
  Rng rng(seed);
  ProgramMaker m;
  m.p.dims = {"n"};
  std::vector<int32_t> made = {m.input("x", DType::kF32, "[n,8]"), m.weight("w", DType::kF32, {8})};
  const int64_t steps = 2 + rng.below(30);
  for (int64_t k = 0; k < steps; ++k) {
    std::vector<int32_t> reads;
    for (int64_t r = 1 + rng.below(3); r > 0; --r) {
      const auto back = rng.below(std::min<int64_t>(static_cast<int64_t>(made.size()), 6));
      reads.push_back(made[made.size() - 1 - static_cast<size_t>(back)]);
    }
    const std::string name = "t" + std::to_string(k);
    const bool output = rng.below(6) == 0;
    const int32_t y = m.buffer(name, output ? BufferKind::kOutput : BufferKind::kScratch, DType::kF32,
                               "[n," + std::to_string(1 + rng.below(50)) + "]");
    if (output) m.output(name, y);
    Step& s = m.step("op", reads, {y});
    if (rng.below(5) == 0) {
      const std::string dim = "d" + std::to_string(k);
      m.p.dims.push_back(dim);
      s.binds = {dim};
    }
    made.push_back(y);
    if (rng.below(4) == 0) {
      made.push_back(
          m.scratch("v" + std::to_string(k), DType::kF32, shape_text(m.p.buffers[static_cast<size_t>(y)].shape)));
      m.p.buffers.back().alias_of = y;
    } else if (rng.below(4) == 0 && !output) {  // nothing reads y afterwards
      made.pop_back();
      made.push_back(
          m.scratch("s" + std::to_string(k), DType::kF32, shape_text(m.p.buffers[static_cast<size_t>(y)].shape)));
      m.p.buffers.back().alias_of = y;
      Step& taking = m.step("op", {y}, {made.back()});
      taking.shares = {0};
      if (rng.below(3) == 0) m.p.dims.push_back("e" + std::to_string(k)), taking.binds = {m.p.dims.back()};
    }
  }
  m.output("last", made.back());
  return m.p;
}

// Pairs of steps in the order that plan/order.hpp tells in words, closed by force.
std::vector<std::vector<bool>> ordered(const Program& p) {
  const size_t n = p.steps.size();
  const std::vector<plan::Segment> segments = plan::segments(p);
  const auto segment_of = [&](size_t k) {
    for (size_t s = 0; s < segments.size(); ++s)
      if (k >= segments[s].begin && k < segments[s].end) return s;
    return SIZE_MAX;
  };
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  for (size_t b = 0; b < n; ++b) {
    const Step& y = p.steps[b];
    for (size_t a = 0; a < b; ++a) {
      const Step& x = p.steps[a];
      before[a][b] = x.device == plan::kHost;
      if (x.device != plan::kHost && x.device == y.device)
        before[a][b] = x.lane == y.lane || segment_of(a) != segment_of(b);
    }
    for (const int32_t w : y.waits_for) before[static_cast<size_t>(w)][b] = true;
  }
  for (size_t m = 0; m < n; ++m)
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < n; ++b)
        if (before[a][m] && before[m][b]) before[a][b] = true;
  return before;
}

bool touches(const Program& p, const Step& s, int32_t owner, bool writes) {
  const auto hit = [&](int32_t b) { return b >= 0 && plan::storage_of(p, b) == owner; };
  if (std::any_of(s.writes.begin(), s.writes.end(), hit)) return true;
  return !writes && std::any_of(s.reads.begin(), s.reads.end(), hit);
}

bool races(const Program& p) {
  const auto before = ordered(p);
  for (size_t owner = 0; owner < p.buffers.size(); ++owner)
    for (size_t b = 0; b < p.steps.size(); ++b)
      for (size_t a = 0; a < b; ++a) {
        const auto o = static_cast<int32_t>(owner);
        const bool conflict = (touches(p, p.steps[a], o, true) && touches(p, p.steps[b], o, false)) ||
                              (touches(p, p.steps[a], o, false) && touches(p, p.steps[b], o, true));
        if (conflict && !before[a][b]) return true;
      }
  return false;
}

TEST(Place, RandomProgramsCheckAndAreOrderedByTheDefinition) {
  int64_t copies = 0, away = 0, cut = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Program p = random_program(seed);
    ASSERT_TRUE(plan::check_program(p, 64).ok()) << plan::check_program(p, 64).error().text();
    const Program old = p;
    const auto origin = place_steps({"null", "op2", static_cast<uint32_t>(1 + seed % 4)}, &p);
    const Status checked = plan::check_program(p, 64);
    ASSERT_TRUE(checked.ok()) << checked.error().text();
    ASSERT_EQ(origin.size(), p.steps.size());
    for (size_t k = 0; k < origin.size(); ++k) {
      const Step& s = p.steps[k];
      copies += origin[k] == kNoStep;
      away += origin[k] != kNoStep && s.device == 1;
      if (origin[k] == kNoStep)
        EXPECT_EQ(s.executor, "copy");
      else
        EXPECT_EQ(s.device == 1, old.steps[origin[k]].binds.empty()) << s.name;
      if (origin[k] != kNoStep) cut += s.shares != old.steps[origin[k]].shares;
    }
    const auto before = ordered(p);
    const plan::StepOrder order(p);
    for (size_t a = 0; a < p.steps.size(); ++a)
      for (size_t b = a + 1; b < p.steps.size(); ++b) ASSERT_EQ(order.before(a, b), before[a][b]) << a << " " << b;
    EXPECT_FALSE(races(p));
  }
  EXPECT_GT(copies, 100);
  EXPECT_GT(away, 500);
  EXPECT_GT(cut, 5);
}

TEST(Place, AWaitThatIsTakenAwayIsMissedWhereNothingElseOrders) {
  int64_t missed = 0, spare = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Program p = random_program(seed);
    place_steps({"null", "op2", 3}, &p);
    for (size_t k = 0; k < p.steps.size(); ++k)
      for (size_t w = 0; w < p.steps[k].waits_for.size(); ++w) {
        Program less = p;
        less.steps[k].waits_for.erase(less.steps[k].waits_for.begin() + static_cast<std::ptrdiff_t>(w));
        const bool refused = !plan::check_program(less, 64).ok();
        ASSERT_EQ(refused, races(less)) << "step " << k << " wait " << w;
        (refused ? missed : spare) += 1;
      }
  }
  EXPECT_GT(missed, 100);
  EXPECT_GT(spare, 5);
}

// By the closure: no two buffers share bytes unless all that touches one is before all that touches the other.
TEST(Place, ArenasShareOnlyWhatIsDone) {
  int64_t shared = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Program p = random_program(seed);
    for (Step& s : p.steps) s.binds.clear();
    if (seed % 2 == 0) p.steps.back().bodies.push_back(std::make_shared<Program>());  // one that stays
    place_steps({"null", "op2", 3}, &p);
    const auto plan = plan::plan_arena(p, {{"n", 3}});
    ASSERT_TRUE(plan.ok()) << plan.error().text();
    const auto before = ordered(p);
    const auto all_before = [&](int32_t x, int32_t y) {
      for (const plan::Port& o : p.outputs)
        if (plan::storage_of(p, o.buffer) == x) return false;
      for (size_t a = 0; a < p.steps.size(); ++a)
        for (size_t b = 0; b < p.steps.size(); ++b)
          if (touches(p, p.steps[a], x, false) && touches(p, p.steps[b], y, false) && (a == b || !before[a][b]))
            return false;
      return true;
    };
    for (size_t x = 0; x < p.buffers.size(); ++x)
      for (size_t y = 0; y < x; ++y) {
        if (plan->offset[x] == plan::kUnbound || plan->offset[y] == plan::kUnbound) continue;
        if (p.buffers[x].alias_of >= 0 || p.buffers[y].alias_of >= 0 || p.buffers[x].device != p.buffers[y].device)
          continue;
        if (plan->offset[x] + plan->bytes[x] <= plan->offset[y] || plan->offset[y] + plan->bytes[y] <= plan->offset[x])
          continue;
        ++shared;
        const auto a = static_cast<int32_t>(x), b = static_cast<int32_t>(y);
        EXPECT_TRUE(all_before(a, b) || all_before(b, a)) << x << " " << y;
      }
  }
  EXPECT_GT(shared, 50);
}

}  // namespace
}  // namespace peri::lower
