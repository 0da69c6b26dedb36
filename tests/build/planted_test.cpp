// A kernel with one fault never comes through a build: the judge of candidates finds it, and without that judge the
// judge of the engine does, names the step, and another choice is made.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "build/build.hpp"
#include "exec/entry.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::build {
namespace {

enum class Fault { kNone, kInPlace, kSecondStep, kDepth, kSmall, kLarge, kLastTile };

// y = relu(x w) + r, or x w + r, by the definition, but for the fault.
struct Product {
  Fault fault;
  int64_t m, k, n;
  bool relu;
  void operator()(int64_t, const kernels::Args& args) const {
    const float *x = static_cast<const float*>(args.in[0]), *w = static_cast<const float*>(args.in[1]);
    const float* r = static_cast<const float*>(args.in[2]);
    float* y = static_cast<float*>(args.out[0]);
    const int64_t depth = fault == Fault::kDepth ? std::min<int64_t>(k, 1536) : k;
    const bool late = fault == Fault::kInPlace;  // all sums are stored before the residual is read
    for (int64_t pass = late ? 0 : 1; pass < 2; ++pass)
      for (int64_t at = 0; at < m * n; ++at) {
        double sum = late && pass == 1 ? static_cast<double>(y[at]) : 0;
        for (int64_t p = 0; p < depth && !(late && pass == 1); ++p)
          sum += static_cast<double>(x[at / n * k + p]) * static_cast<double>(w[p * n + at % n]);
        if (relu && fault != Fault::kSecondStep) sum = std::max(sum, 0.0);
        if (pass == 1) sum += static_cast<double>(r[at]);
        if (relu && fault == Fault::kSecondStep) sum = std::max(sum, 0.0);
        y[at] = static_cast<float>(sum);
      }
    const bool here =
        fault == Fault::kLastTile || (fault == Fault::kSmall && m < 16) || (fault == Fault::kLarge && m > 22);
    if (here) y[m * n - 1] += 1;
  }
};

Result<std::vector<kernels::Offer>> offer(const kernels::Problem& p, const device::Target& target) {
  const ir::Graph& g = *p.graph;
  if (g.nodes.front()->op != "matmul" || g.nodes.back()->op != "add" || g.nodes.size() > 3 || g.inputs.size() != 3)
    return refused("not a product with a residual");
  if (g.nodes.size() == 3 && g.nodes[1]->op != "relu") return refused("not a product with a residual");
  for (const ir::Value* v : g.inputs)
    if (v->type.dtype != DType::kF32 || v->type.rank() != 2 || p.constant != std::vector<bool>(3, false))
      return refused("not of matrices");
  if (!(g.inputs[2]->type.shape == g.outputs[0]->type.shape)) return refused("not a residual");
  kernels::Offer o = kernels::row_major_offer(p, target);
  o.in_place = {2};
  return std::vector<kernels::Offer>{o};
}
template <Fault kFault>
Result<std::unique_ptr<kernels::Instance>> make(const kernels::Problem& p, std::string_view,
                                                const kernels::InstantiateContext&) {
  const std::vector<int64_t> a = kernels::dims_of(*p.graph->inputs[0]), b = kernels::dims_of(*p.graph->inputs[1]);
  return kernels::TaskInstance::make(1, 0, Product{kFault, a[0], a[1], b[1], p.graph->nodes.size() == 3}, 2);
}
template <Fault kFault>
const kernels::Kernel& planted() {
  static const kernels::Kernel k{
      .name = "planted",
      .provider = "planted",
      .takes = "products",
      .offer = offer,
      .instantiate = make<kFault>,
      .samples = {"graph { input x: f32[2,3]; input w: f32[3,4]; input r: f32[2,4]; p = matmul(x, w); y = add(p, r); "
                  "output y }"},
  };
  return k;
}

// The residual is computed, read once and no output, nor is the result: it may take the residual's memory. Rows are
// free.
compile::Imported model(bool relu, int64_t depth, const std::string& weights = "v = identity(w);") {
  compile::Imported m;
  const std::string k = std::to_string(depth);
  auto g = ir::parse_graph("graph { input x: f32[rows," + k + "]; input w: f32[" + k + ",24]; input s: f32[rows,24]; " +
                           weights + " t = softmax(s); p = matmul(x, v);" +
                           (relu ? " a = relu(p); y = add(a, t);" : " y = add(p, t);") + " z = softmax(y); output z }");
  EXPECT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok());
  m.graph = std::move(*g);
  return m;
}

Options options(bool verify, bool judge) {
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  Options o;
  o.executors = kTable;
  o.judge = judge;
  o.compile.model = "planted";
  o.compile.dims = {{"rows", 20}};
  o.compile.tune.measure = false;
  o.compile.tune.verify = verify;
  o.compile.tune.provider = "planted";
  return o;
}

bool chosen(const Built& b) {
  return std::any_of(b.compiled.steps.begin(), b.compiled.steps.end(),
                     [](const auto& s) { return s.chosen.starts_with("planted@1"); });
}

// What each of the two judges says; both must refuse the kernel and leave a right engine. Candidates are tried at the
// tuned size and a small one.
template <Fault kFault>
void expect_found(bool relu = true, int64_t depth = 16) {
  const kernels::AddedKernel added(planted<kFault>());
  const auto blind = build_engine(options(false, false), model(relu, depth));
  ASSERT_TRUE(blind.ok()) << blind.error().text();
  EXPECT_TRUE(chosen(*blind)) << "without a judge it comes through: this test shows something";
  const auto candidates = build_engine(options(true, false), model(relu, depth));
  ASSERT_TRUE(candidates.ok()) << candidates.error().text();
  EXPECT_EQ(chosen(*candidates), kFault == Fault::kLarge) << "the judge of candidates";
  const auto engine = build_engine(options(false, true), model(relu, depth));
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  EXPECT_FALSE(chosen(*engine)) << "the judge of the engine";
  EXPECT_TRUE(engine->verdict.right());
  ASSERT_EQ(engine->refused.size(), 1u);
  EXPECT_EQ(engine->refused[0].candidate, "planted@1 {}");
  EXPECT_EQ(engine->verdict.sizes.size(), 3u);
}

// A build whose choice was refused took as long as both rounds.
TEST(Planted, TheTimeOfABuildIsThatOfAllItsRounds) {
  const kernels::AddedKernel added(planted<Fault::kLarge>());
  Options o = options(false, true);
  constexpr std::chrono::milliseconds kPause(2);
  int64_t pauses = 0;
  o.compile.progress = [&](size_t, size_t, const std::string&) {
    ++pauses;
    std::this_thread::sleep_for(kPause);
  };
  const auto built = build_engine(o, model(true, 16));
  ASSERT_TRUE(built.ok()) << built.error().text();
  ASSERT_EQ(built->refused.size(), 1u);
  EXPECT_GT(pauses, 4);
  EXPECT_GE(built->seconds, std::chrono::duration<double>(kPause).count() * static_cast<double>(pauses));
}

TEST(Planted, ARightKernelComesThrough) {
  const kernels::AddedKernel added(planted<Fault::kNone>());
  const auto built = build_engine(options(true, true), model(true, 16));
  ASSERT_TRUE(built.ok()) << built.error().text();
  std::string refusals;
  for (const auto& step : built->compiled.steps)
    for (const auto& [kernel, reason] : step.refusals) refusals += kernel + ": " + reason + "\n";
  EXPECT_TRUE(chosen(*built)) << refusals;
  EXPECT_TRUE(built->refused.empty());
  ASSERT_EQ(built->verdict.sizes.size(), 3u);
  for (const judge::SizeEvidence& e : built->verdict.sizes) {
    EXPECT_EQ(e.limit, "");
    EXPECT_TRUE(e.same_bits);
    EXPECT_GE(e.whole, 0);
    EXPECT_GT(e.steps_judged, 0);
  }
}

TEST(Planted, WrongOnlyInPlace) { expect_found<Fault::kInPlace>(); }
TEST(Planted, WrongOnlyInTheSecondStepOfTheEpilogue) { expect_found<Fault::kSecondStep>(); }
TEST(Planted, WrongOnlyPastADepthOf1536) { expect_found<Fault::kDepth>(false, 2000); }
TEST(Planted, WrongOnlyAtTheSmallerSize) { expect_found<Fault::kSmall>(); }
TEST(Planted, WrongOnlyAtTheLargerSize) { expect_found<Fault::kLarge>(); }
TEST(Planted, WrongOnlyInTheLastTile) { expect_found<Fault::kLastTile>(); }

// The sums of one column overflow on the made-up inputs: what is wrong beside it is found all the same.
TEST(Planted, WrongBesideSumsThatOverflow) {
  std::string scale = "const c: f32[24] = [1e38";
  for (int k = 1; k < 24; ++k) scale += ", 1.0";
  scale += "]; v = mul(w, c);";
  {
    const kernels::AddedKernel added(planted<Fault::kNone>());
    const auto right = build_engine(options(false, true), model(false, 64, scale));
    ASSERT_TRUE(right.ok()) << right.error().text();
    EXPECT_TRUE(chosen(*right)) << "an overflow is no fault";
    EXPECT_GT(right->verdict.sizes[0].overflowed, 0);
  }
  const kernels::AddedKernel added(planted<Fault::kLastTile>());
  const auto wrong = build_engine(options(false, true), model(false, 64, scale));
  ASSERT_TRUE(wrong.ok()) << wrong.error().text();
  EXPECT_FALSE(chosen(*wrong));
  ASSERT_EQ(wrong->refused.size(), 1u);
}

// A folder for a timing cache.
struct CacheFolder {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("peri_planted_" + std::to_string(getpid()))).string();
  CacheFolder() { std::filesystem::remove_all(path); }
  ~CacheFolder() { std::filesystem::remove_all(path); }
};

// What the judge of the engine found wrong is found wrong by the next build too: only the engine that came of it is
// known as right.
TEST(Planted, AWrongEngineIsNeverKnownAsRight) {
  const kernels::AddedKernel added(planted<Fault::kLarge>());
  const CacheFolder folder;
  Options o = options(false, true);
  o.compile.tune.cache_path = folder.path;
  for (const bool again : {false, true}) {
    const auto built = build_engine(o, model(true, 16));
    ASSERT_TRUE(built.ok()) << built.error().text();
    EXPECT_FALSE(chosen(*built));
    EXPECT_EQ(built->refused.size(), 1u);
    EXPECT_EQ(built->verdict.earlier, again);
  }
  o.judge = false;
  EXPECT_TRUE(chosen(*build_engine(o, model(true, 16)))) << "it is chosen where nobody judges";
}

// Nothing else can be chosen, and the lock may not be left.
TEST(Planted, ALockThatAsksForAWrongChoiceIsRefused) {
  const kernels::AddedKernel added(planted<Fault::kLastTile>());
  const auto blind = build_engine(options(false, false), model(true, 16));
  ASSERT_TRUE(blind.ok());
  Options locked = options(false, true);
  locked.compile.lock = blind->compiled.lock;
  const auto built = build_engine(locked, model(true, 16));
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().kind, ErrorKind::kAccuracy);
  EXPECT_NE(built.error().text().find("planted@1"), std::string::npos) << built.error().text();
}

}  // namespace
}  // namespace peri::build
