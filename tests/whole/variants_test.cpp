// A candidate that holds at the tuned sizes only runs there, and its fallback everywhere else; a lock keeps both.
#include "lower/variants.hpp"

#include <gtest/gtest.h>

#include "backends/cpu/backend.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "lower/lower.hpp"
#include "ops/entry.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"

namespace peri::lower {
namespace {

const DimBinding kDims = {{"batch", 8}};
const std::string kWhole = "onednn_conv@1 {images=4 slices=1}", kCut = "onednn_conv@1 {images=1 slices=2}";

ir::Graph convolution() {
  auto g = ir::parse_graph(
      "graph { input x: f32[batch,16,14,14]; const w: f32[24,16,3,3] = seeded(0.3, 1); "
      "y = conv(x, w) {pads=[1,1,1,1]}; output y }");
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  return std::move(*g);
}

tune::Options unmeasured() {
  tune::Options o;
  o.measure = o.verify = false;
  o.provider = "onednn";
  return o;
}

Result<Lowered> lowered(const plan::Lock* lock) {
  tune::Tuner tuner(unmeasured());
  return lower_graph(convolution(), backends::cpu::backend(), tuner, {kDims, {}, lock, {}});
}

plan::Lock locked_to(const std::string& candidate, const std::string& fallback) {
  plan::Lock lock;
  Result<Lowered> first = lowered(nullptr);
  EXPECT_TRUE(first.ok()) << first.error().text();
  if (!first.ok()) return lock;
  for (const StepReport& s : first->steps) {
    auto& list = s.conversion ? lock.conversions : lock.regions;
    list.push_back({s.name, s.key, s.chosen, s.layouts, s.requires_isa, s.library, "", ""});
  }
  lock.regions[0].candidate = candidate;
  lock.regions[0].fallback = fallback;
  lock.regions[0].fallback_isa = lock.regions[0].requires_isa;
  return lock;
}

const plan::Step* conv_step(const plan::Program& program) {
  for (const plan::Step& s : program.steps)
    if (!s.name.starts_with("relayout")) return &s;
  return nullptr;
}

TEST(Variants, OfferedHereOnlyIsUsableBesideAFallback) {
  const ir::Graph g = convolution();
  tune::Tuner tuner(unmeasured());
  Region r;
  r.nodes = g.nodes;
  close_region(g, &r);
  const auto here = exec::bind_region(region_graph(r), kDims);
  ASSERT_TRUE(here.ok());
  tune::Candidates all = tuner.candidates(*here, constant_inputs(r));
  const std::vector<DimBinding> also = {{{"batch", 3}}};
  std::vector<tune::Refusal> refusals;
  auto usable = usable_candidates(r, all, kDims, also, {}, &tuner, &refusals);
  ASSERT_EQ(usable.size(), 3u);
  EXPECT_TRUE(refusals.empty());
  EXPECT_EQ(usable[2].id(), kWhole);
  ASSERT_NE(usable[2].fallback, nullptr);
  EXPECT_EQ(usable[2].fallback->id(), usable[0].id());
  EXPECT_EQ(usable[2].offer.holds_for.size(), 1u);
  EXPECT_EQ(usable[0].fallback, nullptr);
  // Without one that holds everywhere it is refused.
  std::erase_if(all.list, [](const tune::Candidate& c) { return c.id() != kWhole; });
  EXPECT_TRUE(usable_candidates(r, all, kDims, also, {}, &tuner, &refusals).empty());
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_NE(refusals[0].reason.find("tuned dims only"), std::string::npos);
}

TEST(Variants, TheStepHoldsBothAndEachRunsAtItsSizes) {
  const plan::Lock lock = locked_to(kWhole, kCut);
  ASSERT_EQ(plan::parse_lock(plan::lock_text(lock))->regions[0].fallback, kCut);
  Result<Lowered> made = lowered(&lock);
  ASSERT_TRUE(made.ok()) << made.error().text();
  const plan::Step* step = conv_step(made->program);
  ASSERT_NE(step, nullptr);
  ASSERT_EQ(step->variants.size(), 2u);
  runtime::EngineOptions options;
  const auto table = exec::table();
  options.executors = table;
  options.machine = {device::this_cpu().isas, exec::libraries()};
  EXPECT_EQ(plan::choose_variant(*step, options.machine, kDims).value(), 0u);
  EXPECT_EQ(plan::choose_variant(*step, options.machine, {{"batch", 3}}).value(), 1u);
  EXPECT_NE(step->variants[0].payload.find("images=4"), std::string::npos);
  EXPECT_NE(step->variants[1].payload.find("images=1"), std::string::npos);

  Result<plan::AssembledEngine> assembled = plan::assemble_engine(made->program, made->weights);
  ASSERT_TRUE(assembled.ok()) << assembled.error().text();
  auto engine =
      runtime::Engine::create(std::move(assembled->program), {assembled->weight_bytes, assembled->keep, {}}, options);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto session = runtime::Session::create(*engine);
  ASSERT_TRUE(session.ok());
  for (const int64_t batch : {8, 3}) {
    Tensor x = *Tensor::zeros(DType::kF32, {batch, 16, 14, 14});
    for (int64_t k = 0; k < x.numel(); ++k) x.set_f64(k, static_cast<double>(k % 13) - 6);
    const auto got = (*session)->run(std::vector<Tensor>{x});
    ASSERT_TRUE(got.ok()) << got.error().text();
    const auto want = ops::run_reference(convolution(), std::vector<ops::RefTensor>{ops::to_ref(x)});
    ASSERT_TRUE(want.ok());
    for (int64_t k = 0; k < (*got)[0].numel(); ++k)
      ASSERT_NEAR((*got)[0].f64(k), (*want)[0].f[static_cast<size_t>(k)], 1e-3) << "batch " << batch << " at " << k;
  }
}

TEST(Variants, ALockThatLeavesOutTheFallbackIsRefused) {
  const plan::Lock bare = locked_to(kWhole, ""), strange = locked_to(kWhole, "nothing@1 {}");
  for (const plan::Lock* lock : {&bare, &strange}) {
    const Result<Lowered> made = lowered(lock);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, ErrorKind::kRefused) << made.error().text();
  }
}

}  // namespace
}  // namespace peri::lower
