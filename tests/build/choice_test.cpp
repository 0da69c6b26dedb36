// What a build chooses among planted kernels of planted cost: a slow kernel for a long region does not shut out a fast
// one for the short, nor the reverse, and two saved changes of layout outweigh a faster kernel.
#include <cmath>
#include <cstring>

#include "tests/build/planted_products.hpp"

namespace peri::build {
namespace {

// Pools over one element: they copy. With dilations (which change nothing) in either layout, without in NHWC only.
template <Which kWhich>
Result<std::vector<kernels::Offer>> offer_pool(const kernels::Problem& p, const device::Target& target) {
  const ir::Graph& g = *p.graph;
  const ir::Node& n = *g.nodes[0];
  if (g.nodes.size() != 1 || n.op != "max_pool" || n.outputs.size() != 1 || !n.ints("strides").empty() ||
      !n.ints("pads").empty() || n.ints("kernel_shape") != std::vector<int64_t>{1, 1} ||
      g.inputs[0]->type.dtype != DType::kF32 || (kWhich == kPlain && n.ints("dilations").empty()))
    return refused("another region");
  kernels::Offer o = kernels::row_major_offer(p, target);
  if (kWhich == kBlocked) o.inputs = o.outputs = {ir::nhwc()};
  return std::vector<kernels::Offer>{o};
}
template <Which kWhich>
Result<std::unique_ptr<kernels::Instance>> make_pool(const kernels::Problem& p, std::string_view,
                                                     const kernels::InstantiateContext&) {
  const std::vector<int64_t> d = kernels::dims_of(*p.graph->inputs[0]);
  const bool dilated = !p.graph->nodes[0]->ints("dilations").empty();
  return kernels::TaskInstance::make(1, 0,
                                     [n = d[0] * d[1] * d[2] * d[3], dilated](int64_t, const kernels::Args& args) {
                                       if (n >= 1 << 16 && dilated) spend(kWhich);
                                       std::memcpy(args.out[0], args.in[0], static_cast<size_t>(n) * 4);
                                     });
}

const kernels::Kernel kPlainKernel =
    kernel("plain", offer_pool<kPlain>, make_pool<kPlain>,
           "graph { input x: f32[1,2,3,4]; y = max_pool(x) {kernel_shape=[1,1], dilations=[2,2]}; output y }");
const kernels::Kernel kBlockedKernel =
    kernel("blocked", offer_pool<kBlocked>, make_pool<kBlocked>,
           "graph { input x: f32[1,2,3,4]; y = max_pool(x) {kernel_shape=[1,1]}; output y }");

// A sigmoid that takes a millisecond, or nothing where its tunable is set to 2.
Result<std::vector<kernels::Offer>> offer_turned(const kernels::Problem& p, const device::Target& target) {
  if (p.graph->nodes.size() != 1 || p.graph->nodes[0]->op != "sigmoid" || !plain_matrices(p, 1))
    return refused("another region");
  return std::vector<kernels::Offer>{kernels::row_major_offer(p, target)};
}
extern const kernels::Kernel kTurnedKernel;
Result<std::unique_ptr<kernels::Instance>> make_turned(const kernels::Problem& p, std::string_view config,
                                                       const kernels::InstantiateContext&) {
  const std::vector<int64_t> d = kernels::dims_of(*p.graph->inputs[0]);
  PERI_ASSIGN(const int64_t speed, kernels::setting(kTurnedKernel, config, "speed"));
  const bool slow = speed != 2 && d[0] >= 16;
  return kernels::TaskInstance::make(1, 0, [n = d[0] * d[1], slow](int64_t, const kernels::Args& args) {
    const int64_t start = now_ns();
    while (slow && seconds_since(start) < 1e-3) {}
    const float* x = static_cast<const float*>(args.in[0]);
    for (int64_t k = 0; k < n; ++k) static_cast<float*>(args.out[0])[k] = 1 / (1 + std::exp(-x[k]));
  });
}
const kernels::Kernel kTurnedKernel{.name = "turned",
                                    .provider = "planted",
                                    .takes = "what a test plants",
                                    .offer = offer_turned,
                                    .instantiate = make_turned,
                                    .samples = {"graph { input x: f32[2,3]; y = sigmoid(x); output y }"},
                                    .tunables = {{"speed", "of the test", {1, 2, 3}}}};

constexpr std::string_view kProduct =
    "graph { input x: f32[24,8]; input w: f32[8,16]; p = matmul(x, w); y = relu(p); output y }";

TEST_F(Choice, ASlowKernelForTheLongRegionDoesNotShutOutAFastOneForTheShort) {
  costs(2, 0.1, 0.1);
  const auto built = build_engine(options(), model(kProduct));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"short", "rest"}));
  EXPECT_TRUE(built->verdict.right());
  EXPECT_FALSE(built->verdict.sizes.empty()) << "it was judged";
}

TEST_F(Choice, ASlowKernelForTheShortRegionDoesNotShutOutAFastOneForTheLong) {
  costs(0.1, 2, 0.1);
  const auto built = build_engine(options(), model(kProduct));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"long"}));
}

TEST_F(Choice, TheRestCountsToo) {
  costs(1, 0.1, 2);
  const auto built = build_engine(options(), model(kProduct));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"long"}));
}

TEST_F(Choice, WhatASlowPhaseSplitIsVisitedAgainWhenItHasPassed) {
  costs(0.2, 1, 1);
  slow_phase_ms = 8;
  const auto built = build_engine(options(), model(kProduct));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(slow_phase_ms, 0) << "a split was looked at";
  EXPECT_EQ(kernels_of(*built), (Names{"long"}));
  EXPECT_GT(built->compiled.tuned.again, 0);
  EXPECT_GT(built->compiled.steps[0].evidence.spread, 1) << "the first visit was slow";
}

TEST(Counted, WhatIsNotOfTheCutHasToWinByMoreThanItsVisitsDiffer) {
  tune::Evidence e;
  e.time_ms = 1;
  EXPECT_EQ(lower::counted_ms(e, true), 1);
  const double once = lower::counted_ms(e, false);
  EXPECT_GT(once, 1);
  e.spread = 0.5;
  EXPECT_EQ(lower::counted_ms(e, true), 1);
  EXPECT_DOUBLE_EQ(lower::counted_ms(e, false), 1.5 * once);
  e.visits = 1;
  EXPECT_LT(lower::hoped_ms(e, false), 1);
  EXPECT_EQ(lower::hoped_ms(e, true), 1);
  e.visits = 2;
  EXPECT_EQ(lower::hoped_ms(e, false), 1);
}

// What saves a launch on a device is taken at the same time, and not where it is slower than two measurements differ.
TEST(Counted, OfTheSameTimesTheOneOfFewerLaunchesIsTaken) {
  tune::Evidence joined;
  joined.time_ms = 1;
  joined.spread = 0.5;
  EXPECT_LT(lower::counted_for_fewer_ms(joined, false), 0.99);
  EXPECT_GT(lower::counted_for_fewer_ms(joined, false), 0.95);
  EXPECT_GT(lower::counted_ms(joined, false), 1);
}

TEST_F(Choice, ALockKeepsTheSplit) {
  costs(2, 0.1, 0.1);
  const auto built = build_engine(options(), model(kProduct));
  ASSERT_TRUE(built.ok()) << built.error().text();
  costs(0.1, 2, 2);
  Options locked = options();
  locked.compile.lock = built->compiled.lock;
  const auto again = build_engine(locked, model(kProduct));
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(kernels_of(*again), (Names{"short", "rest"}));
  EXPECT_EQ(plan::lock_text(again->compiled.lock), plan::lock_text(built->compiled.lock));
}

TEST_F(Choice, ASplitThatIsRefusedInTheEngineIsNotTakenAgain) {
  costs(2, 0.1, 0.1);
  auto compilation = compile::Compilation::start(options().compile, model(kProduct));
  ASSERT_TRUE(compilation.ok()) << compilation.error().text();
  const auto first = (*compilation)->lower();
  ASSERT_TRUE(first.ok()) << first.error().text();
  ASSERT_EQ(first->steps.size(), 2u);
  lower::RefusedChoices refused;
  refused[first->steps[0].key][first->steps[0].chosen] = "a test says so";
  const auto second = (*compilation)->lower(refused);
  ASSERT_TRUE(second.ok()) << second.error().text();
  ASSERT_EQ(second->steps.size(), 1u);
  EXPECT_TRUE(second->steps[0].chosen.starts_with("long@1"));
}

TEST_F(Choice, AProviderThatNoKernelHasIsRefused) {
  Options o = options();
  o.compile.tune.provider = "planned";
  const auto built = build_engine(o, model(kProduct));
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().kind, ErrorKind::kUsage);
  EXPECT_NE(built.error().text().find("planted"), std::string::npos) << built.error().text();
}

TEST_F(Choice, WithoutMeasuringTheLongestStands) {
  costs(2, 0, 0);
  Options o = options();
  o.compile.tune.measure = false;
  const auto built = build_engine(o, model(kProduct));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"long"}));
}

TEST(Settings, AreTriedAsManyAsAskedForAndLocked) {
  const kernels::AddedKernel turned(kTurnedKernel);
  constexpr std::string_view kText = "graph { input x: f32[24,8]; y = sigmoid(x); output y }";
  for (const int settings : {0, 1, 2}) {
    Options o = options();
    o.compile.tune.settings = settings;
    const auto built = build_engine(o, model(kText));
    ASSERT_TRUE(built.ok()) << built.error().text();
    const auto& step = built->compiled.steps[0];
    EXPECT_EQ(step.others.size(), static_cast<size_t>(settings));
    if (settings < 2) continue;
    EXPECT_EQ(step.chosen, "turned@1 {speed=2}");
    Options locked = options();
    locked.compile.lock = built->compiled.lock;
    const auto again = build_engine(locked, model(kText));
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(again->compiled.steps[0].chosen, step.chosen);
  }
}

// The middle of three pools: 8 MB in NHWC on both sides of it, which a change of layout reads and writes.
TEST(Layouts, TwoSavedConversionsOutweighAFasterKernel) {
  const kernels::AddedKernel plain(kPlainKernel), blocked(kBlockedKernel);
  const auto text = model(
      "graph { input x: f32[1,32,256,256]; a = max_pool(x) {kernel_shape=[1,1]}; b = max_pool(a) {kernel_shape=[1,1], "
      "dilations=[2,2]}; y = max_pool(b) {kernel_shape=[1,1]}; output y }");
  Options o = options();
  o.compile.tune.verify = false;
  o.judge = false;
  for (const bool much : {false, true}) {
    cost_ms[kPlain] = 0;
    cost_ms[kBlocked] = much ? 200 : 0.2;
    compile::Imported m;
    m.graph = text.graph.clone();
    const auto built = build_engine(o, std::move(m));
    ASSERT_TRUE(built.ok()) << built.error().text();
    EXPECT_EQ(kernels_of(*built), (Names{"blocked", much ? "plain" : "blocked", "blocked"}));
  }
}

// Kernels for large images that only take their time: a pool with the relu behind it in NHWC, the pool and the relu
// alone in either's own layout.
template <Which kWhich>
Result<std::vector<kernels::Offer>> offer_idle(const kernels::Problem& p, const device::Target& target) {
  const ir::Graph& g = *p.graph;
  const std::string_view first = kWhich == kRest ? "relu" : "max_pool";
  if (g.nodes[0]->op != first || g.nodes.size() != (kWhich == kLong ? 2u : 1u) || g.inputs.size() != 1 ||
      g.inputs[0]->type.rank() != 4 || g.nodes.back()->outputs.size() != 1 ||
      (kWhich == kLong && g.nodes[1]->op != "relu"))
    return refused("another region");
  kernels::Offer o = kernels::row_major_offer(p, target);
  if (kWhich == kLong) o.inputs = o.outputs = {ir::nhwc()};
  return std::vector<kernels::Offer>{o};
}
template <Which kWhich>
Result<std::unique_ptr<kernels::Instance>> make_idle(const kernels::Problem&, std::string_view,
                                                     const kernels::InstantiateContext&) {
  return kernels::TaskInstance::make(1, 0, [](int64_t, const kernels::Args&) { spend(kWhich); });
}

// The rest alone takes longer than the whole, which yet needs two changes of layout.
TEST(Layouts, ASplitThatSavesConversionsIsLookedAtThoughItsRestIsSlowerThanTheWhole) {
  const kernels::Kernel whole = kernel("whole", offer_idle<kLong>, make_idle<kLong>, ""),
                        pool = kernel("pool", offer_idle<kShort>, make_idle<kShort>, ""),
                        relu = kernel("relu", offer_idle<kRest>, make_idle<kRest>, "");
  const kernels::AddedKernel add_whole(whole), add_pool(pool), add_relu(relu);
  cost_ms[kLong] = cost_ms[kShort] = 0.2;
  cost_ms[kRest] = 0.4;
  slow_phase_ms = 0;
  Options o = options();
  o.compile.tune.verify = false;
  o.judge = false;
  const auto built = build_engine(
      o, model("graph { input x: f32[1,32,256,256]; a = max_pool(x) {kernel_shape=[1,1]}; y = relu(a); output y }"));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"pool", "relu"}));
}

}  // namespace
}  // namespace peri::build
