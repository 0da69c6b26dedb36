// What a build tries on a device, and when: a kernel that is expected far behind comes last, of one that is less far
// behind the best is tried first; samples run of what is chosen, and what is wrong on one is not chosen.
// label: cpu
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "kernels/cpu/task_instance.hpp"
#include "lower/lower.hpp"
#include "ops/entry.hpp"

namespace peri::lower {
namespace {

const Backend kBackend = {.name = "none"};

// relu; `wrong`: with fewer elements than kFew, as the samples have.
constexpr int64_t kFew = 4096;
struct Plan {
  double guess_ms = 0;
  int sleep_us = 0;
  bool wrong = false;
  int configs = 1;
};
Plan& plan_of(int which) {
  static Plan plans[2];
  return plans[which];
}

template <int kWhich>
Result<std::vector<kernels::Offer>> offer(const kernels::Problem& p, const device::Target& target) {
  const ir::Graph& g = *p.graph;
  if (g.nodes.size() != 1 || g.nodes[0]->op != "relu" || g.inputs[0]->type.dtype != DType::kF32)
    return refused("no relu of f32");
  std::vector<kernels::Offer> out;
  for (int k = 0; k < plan_of(kWhich).configs; ++k) {
    out.push_back(kernels::row_major_offer(p, target));
    out.back().config = format("n=%d", k);
    out.back().guess_ms = plan_of(kWhich).guess_ms;
  }
  return out;
}
template <int kWhich>
Result<std::unique_ptr<kernels::Instance>> make(const kernels::Problem& p, std::string_view,
                                                const kernels::InstantiateContext&) {
  int64_t count = 1;
  for (const int64_t d : kernels::dims_of(*p.graph->inputs[0])) count *= d;
  return kernels::TaskInstance::make(1, 0, [count, plan = plan_of(kWhich)](int64_t, const kernels::Args& args) {
    const auto* x = static_cast<const float*>(args.in[0]);
    auto* y = static_cast<float*>(args.out[0]);
    for (int64_t k = 0; k < count; ++k) y[k] = x[k] < 0 ? 0 : x[k];
    if (plan.wrong && count < kFew && count > 0) y[0] = 77;
    if (plan.sleep_us > 0 && count >= kFew) std::this_thread::sleep_for(std::chrono::microseconds(plan.sleep_us));
  });
}

class Turns : public testing::Test {
 protected:
  Turns() {
    plan_of(0) = plan_of(1) = {};
    add("planted_first", offer<0>, make<0>);
    add("planted_second", offer<1>, make<1>);
    auto g = ir::parse_graph("graph { input x: f32[128,64]; y = relu(x); output y }");
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    graph_ = std::move(*g);
    options_.provider = "planted";
    options_.executors = {"cpu"};
    options_.own_executor = "cpu";
    options_.budget_ms = 2;
    options_.model_bytes = 0;  // as the graph has
  }
  // A process keeps what it knows of a kernel's samples, by its address.
  void add(std::string_view name, decltype(kernels::Kernel::offer) offer, decltype(kernels::Kernel::instantiate) make) {
    static std::deque<kernels::Kernel> all;
    all.push_back({.name = name, .provider = "planted", .takes = "relu", .offer = offer, .instantiate = make});
    added_.push_back(std::make_unique<kernels::AddedKernel>(all.back()));
  }
  const tune::Candidates& tried() {
    tuner_ = std::make_unique<tune::Tuner>(options_);
    return tuner_->candidates(graph_, {false});
  }
  static std::string refusals(const tune::Candidates& all) {
    std::string out;
    for (const tune::Refusal& r : all.refusals)
      if (r.reason.starts_with("not tried")) out += r.kernel + ": " + r.reason + "\n";
    return out;
  }

  std::vector<std::unique_ptr<kernels::AddedKernel>> added_;
  ir::Graph graph_;
  tune::Options options_;
  std::unique_ptr<tune::Tuner> tuner_;
};

TEST_F(Turns, WhatIsExpectedFarBehindIsTriedWhereNothingElseIsRight) {
  options_.late_samples = true;  // of the first, which is wrong on none that runs here
  plan_of(0).guess_ms = 1;
  plan_of(1).guess_ms = 3.5;
  const tune::Candidates& one = tried();
  ASSERT_EQ(one.list.size(), 1u);
  EXPECT_EQ(one.list[0].kernel->name, "planted_first");
  EXPECT_NE(refusals(one).find("planted_second@1 {n=0}: not tried: expected far behind"), std::string::npos)
      << refusals(one);
  added_.erase(added_.begin());
  add("planted_first", offer<0>,
      [](const kernels::Problem&, std::string_view, const kernels::InstantiateContext&)
          -> Result<std::unique_ptr<kernels::Instance>> { return refused("not today"); });
  const tune::Candidates& other = tried();
  ASSERT_EQ(other.list.size(), 2u);
  EXPECT_EQ(other.list[0].kernel->name, "planted_second");
  EXPECT_TRUE(other.list[0].evidence.right() && other.list[0].evidence.timed());
}

TEST_F(Turns, OfWhatIsExpectedBehindTheRestIsTriedWhereTheFirstIsClose) {
  options_.late_samples = true;
  plan_of(0).guess_ms = 1;
  plan_of(1) = {.guess_ms = 2, .configs = 3};
  for (const int sleep_us : {0, 20000}) {
    plan_of(0).sleep_us = sleep_us == 0 ? 20000 : 0;  // the other is as fast or faster
    plan_of(1).sleep_us = sleep_us;
    const tune::Candidates& all = tried();
    EXPECT_EQ(all.list.size(), sleep_us == 0 ? 4u : 2u) << refusals(all);
    EXPECT_EQ(refusals(all).find("the first of its kernel took") != std::string::npos, sleep_us != 0) << refusals(all);
  }
}

TEST_F(Turns, WhatIsChosenIsRightOnItsSamples) {
  plan_of(0).wrong = true;  // and fast
  plan_of(1).sleep_us = 2000;
  for (const bool late : {false, true}) {
    options_.late_samples = late;
    const tune::Candidates& all = tried();
    ASSERT_EQ(all.list.size(), 2u);
    const tune::Candidate& fast = all.list[late ? 0 : 1];
    EXPECT_EQ(fast.kernel->name, "planted_first");
    EXPECT_EQ(fast.evidence.right(), late) << "its samples run when it is chosen";
    EXPECT_EQ(tuner_->wrong_on_samples(fast).find("wrong on a sample") != std::string::npos, late);
    EXPECT_EQ(tuner_->wrong_on_samples(all.list[late ? 1 : 0]), "");
    const auto made = lower_graph(graph_, kBackend, *tuner_, {{}, {}, nullptr, {}});
    ASSERT_TRUE(made.ok()) << made.error().text();
    ASSERT_EQ(made->steps.size(), 1u);
    EXPECT_EQ(made->steps[0].chosen, "planted_second@1 {n=0}");
    const auto told = std::any_of(made->steps[0].refusals.begin(), made->steps[0].refusals.end(), [](const auto& r) {
      return r.first.starts_with("planted_first") && r.second.find("wrong on a sample") != std::string::npos;
    });
    EXPECT_TRUE(told);
  }
}

TEST_F(Turns, SamplesOfWhatNobodyChoosesDoNotRun) {
  options_.late_samples = true;
  plan_of(1).sleep_us = 2000;
  (void)tried();
  ASSERT_TRUE(lower_graph(graph_, kBackend, *tuner_, {{}, {}, nullptr, {}}).ok());
  EXPECT_EQ(tuner_->stats().kernels_sampled, 1);
  EXPECT_GT(tuner_->stats().kernels.at("planted_first").samples, 0);
}

}  // namespace
}  // namespace peri::lower
