// How many of a device kernel's offers are tried: likely rivals, or without times those up to the first right one.
// label: cpu
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tune/planted.hpp"
#include "tune/candidates.hpp"

namespace peri::tune {
namespace {

std::vector<kernels::Offer> guessed(std::initializer_list<double> list) {
  std::vector<kernels::Offer> out;
  for (const double ms : list) out.emplace_back().guess_ms = ms;
  return out;
}

TEST(Guesses, TheFirstOfManyAreTried) {
  EXPECT_EQ(guesses_tried(guessed({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})), 8u);
  EXPECT_EQ(guesses_tried(guessed({1, 1.1, 1.2, 1.3, 1.9, 2.1, 5})), 5u) << "those far from the best are not rivals";
  EXPECT_EQ(guesses_tried(guessed({1, 3, 4, 5, 6})), 4u) << "beyond a few";
  EXPECT_EQ(guesses_tried({}), 0u);
}

TEST(Guesses, AKernelThatAnotherLeavesBehindWaitsForIt) {
  EXPECT_EQ(turn_of(0, 3.1, 1), Turn::kLastResort);
  EXPECT_EQ(turn_of(0, 2.9, 1), Turn::kFirst) << "to see whether its others are worth a trial";
  EXPECT_EQ(turn_of(1, 2.9, 1), Turn::kIfClose);
  EXPECT_EQ(turn_of(1, 1.05, 1), Turn::kIfClose) << "however little it is behind";
  EXPECT_EQ(turn_of(1, 1, 1), Turn::kFirst);
  EXPECT_EQ(turn_of(1, 3.1, 0), Turn::kFirst) << "no other says anything";
  EXPECT_EQ(turn_of(1, 0, 1), Turn::kFirst) << "it says nothing itself";
}

// A product with one fault, expected to take so long. `kMaxRows`: of those that it takes.
template <planted::Fault kFault, int kGuess, int64_t kMaxRows = INT64_MAX>
const kernels::Kernel& guessed_kernel() {
  static const std::string name = (kMaxRows < INT64_MAX ? "small" : "guessed") + std::to_string(kGuess);
  static const kernels::Kernel k = [] {
    kernels::Kernel out = planted::kernel<kFault>();
    out.name = name;
    out.offer = [](const kernels::Problem& p, const device::Target& target) -> Result<std::vector<kernels::Offer>> {
      if (kernels::dims_of(*p.graph->outputs[0])[0] > kMaxRows) return refused("too many rows");
      auto offers = planted::offer<kFault>(p, target);
      if (offers.ok()) (*offers)[0].guess_ms = kGuess;
      return offers;
    };
    return out;
  }();
  return k;
}

class WithoutTimes : public testing::Test {
 protected:
  void SetUp() override {
    known_.add(guessed_kernel<planted::Fault::kNone, 4>());
    known_.add(guessed_kernel<planted::Fault::kNone, 3>());
    known_.add(guessed_kernel<planted::Fault::kLarge, 2>());
    known_.add(guessed_kernel<planted::Fault::kLastTile, 1>());
    Options options;
    options.measure = false;
    options.provider = "one";
    options.own_executor = "cpu";
    options.late_samples = true;
    tuner_.emplace(options);
  }
  static ir::Graph product(int64_t rows) {
    auto g = ir::parse_graph("graph { input x: f32[" + std::to_string(rows) +
                             ",24]; input w: f32[24,40]; y = matmul(x, w); output y }");
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    return std::move(*g);
  }
  static std::string told(const Candidates& all) {
    std::string out;
    for (const Candidate& c : all.list) {
      out += format("%s %s; ", c.kernel->name.data(), c.evidence.right() ? "right" : c.waits ? "not tried" : "wrong");
    }
    return out;
  }
  planted::Known known_;
  std::optional<Tuner> tuner_;
};

TEST_F(WithoutTimes, TheFirstRightOneByGuessIsTakenAndNoOtherIsTried) {
  const Candidates& all = tuner_->candidates(product(7), {false, false});
  ASSERT_EQ(all.list.size(), 4u);
  EXPECT_EQ(all.list[0].kernel->name, "guessed2");
  EXPECT_EQ(told(all), "guessed2 right; guessed1 wrong; guessed3 not tried; guessed4 not tried; ");
  EXPECT_NE(all.list[3].evidence.rejected.find("without tuning"), std::string::npos) << all.list[3].evidence.rejected;
}

TEST_F(WithoutTimes, WhatIsWrongAtAnotherSizeIsFollowedByTheNext) {
  const ir::Graph also[] = {product(100)};
  const Candidates& all = tuner_->candidates(product(7), {false, false}, also);
  ASSERT_EQ(all.list.size(), 4u);
  EXPECT_EQ(all.list[0].kernel->name, "guessed3") << told(all);
  EXPECT_EQ(all.list[3].kernel->name, "guessed4") << told(all);
  EXPECT_FALSE(all.list[3].evidence.tried());
  EXPECT_EQ(tuner_->candidates(product(7), {false, false}).list[0].kernel->name, "guessed2")
      << "at the tuned size alone";
}

TEST_F(WithoutTimes, WhatDoesNotTakeAnotherSizeIsFollowedByOneThatDoes) {
  known_.add(guessed_kernel<planted::Fault::kNone, 1, 50>());
  const ir::Graph also[] = {product(100)};
  const Candidates& all = tuner_->candidates(product(7), {false, false}, also);
  ASSERT_EQ(all.list.size(), 5u);
  const auto is_right = [&](std::string_view name) {
    return std::any_of(all.list.begin(), all.list.end(), [&](const Candidate& c) {
      return c.kernel->name == name && c.evidence.tried() && c.evidence.right();
    });
  };
  EXPECT_TRUE(is_right("small1")) << told(all);
  EXPECT_TRUE(is_right("guessed3")) << told(all);
}

}  // namespace
}  // namespace peri::tune
