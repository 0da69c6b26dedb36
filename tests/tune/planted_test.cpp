// Every planted fault is rejected, and for what it is: wrong in an argument's memory, at other dims, in the last tile,
// past sums of 1536, in a second step; memory written outside; errors of the run; bits that depend on the order of
// tasks.
#include <algorithm>

#include "tests/tune/planted.hpp"

#include <gtest/gtest.h>

#include "tune/other_dims.hpp"
#include "tune/samples.hpp"
#include "tune/trial.hpp"

namespace peri::tune {
namespace {

using planted::Fault;

ir::Graph product(int64_t m, int64_t k, int64_t n, bool residual) {
  const std::string text =
      format("graph { input x: f32[%lld,%lld]; input w: f32[%lld,%lld]; %s output y }", static_cast<long long>(m),
             static_cast<long long>(k), static_cast<long long>(k), static_cast<long long>(n),
             residual ? format("input r: f32[%lld,%lld]; p = matmul(x, w); y = add(p, r);", static_cast<long long>(m),
                               static_cast<long long>(n))
                            .c_str()
                      : "y = matmul(x, w);");
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok()) << text;
  return std::move(*g);
}

std::vector<Verdict> judged(const ir::Graph& g, std::span<Candidate* const> candidates, bool other_dims = false,
                            bool measure = false) {
  const std::vector<const Candidate*> list(candidates.begin(), candidates.end());
  std::vector<Verdict> out(list.size());
  planted::Known known;
  for (const Candidate* c : list) known.add(*c->kernel);
  const Terms terms{.measure = measure, .other_dims = other_dims, .budget_ms = 1};
  Judge(1).judge(g, std::vector<bool>(g.inputs.size(), false), list, terms, [&](size_t k, const Verdict* v) {
    if (v) out[k] = *v;
  });
  return out;
}

Candidate candidate_of(const kernels::Kernel& kernel, const ir::Graph& g) {
  auto offers = kernel.offer({&g, std::vector<bool>(g.inputs.size(), false)}, device::cpu_target(1));
  EXPECT_TRUE(offers.ok());
  return {&kernel, offers->front()};
}

Verdict judged(const kernels::Kernel& kernel, const ir::Graph& g) {
  Candidate c = candidate_of(kernel, g);
  Candidate* list[] = {&c};
  return judged(g, list)[0];
}

// The reason for which a fault is rejected at its problem.
template <Fault kFault>
std::string reason(const ir::Graph& g = product(20, 16, 24, true)) {
  return judged(planted::kernel<kFault>(), g).evidence.rejected;
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << "'" << (text) << "'"

TEST(Planted, WithoutAFaultItIsRightInEveryForm) {
  const Verdict v = judged(planted::kernel<Fault::kNone>(), product(20, 16, 24, true));
  EXPECT_EQ(v.evidence.rejected, "");
  EXPECT_EQ(v.evidence.runs, 4);  // in its own memory and the residual's, in both orders
  EXPECT_EQ(v.evidence.shared_runs, 2);
  EXPECT_EQ(v.evidence.shapes, 1);
  EXPECT_EQ(judged(planted::kernel<Fault::kNone>(), product(20, 16, 24, false)).evidence.shared_runs, 0);
}

TEST(Planted, WrongOnlyInAnArgumentsMemory) {
  EXPECT_SAYS(reason<Fault::kReadsLate>(), "share memory");
  EXPECT_EQ(reason<Fault::kReadsLate>(product(20, 16, 24, false)), "");
  EXPECT_SAYS(reason<Fault::kOwnInput>(product(20, 16, 16, false)), "share memory");
}

TEST(Planted, SharingWithWhatIsNoneOfItsKind) {
  const ir::Graph g = product(20, 16, 24, true);
  for (int input : {0, 3}) {
    Candidate c = candidate_of(planted::kernel<Fault::kNone>(), g);
    c.offer.in_place = {input};
    Candidate* list[] = {&c};
    EXPECT_SAYS(judged(g, list)[0].evidence.rejected, "none of its kind");
  }
}

TEST(Planted, WrongInTheLastTile) {
  const ir::Graph g = product(520, 80, 515, true);
  const Verdict good = judged(planted::kernel<Fault::kNone>(), g);
  EXPECT_EQ(good.evidence.rejected, "");
  EXPECT_GE(good.evidence.positions, 4096) << "the problem is expensive";
  EXPECT_SAYS(reason<Fault::kLastTile>(g), "differs at 267799");
}

TEST(Planted, MemoryOutsideIsWritten) {
  EXPECT_SAYS(reason<Fault::kPastEnd>(), "past the end of its result 0");
  EXPECT_SAYS(reason<Fault::kBeforeStart>(), "before the start of its result 0");
  EXPECT_SAYS(reason<Fault::kWorkspace>(), "past the end of its workspace");
  EXPECT_SAYS(reason<Fault::kScratch>(), "past the end of its scratch");
  EXPECT_SAYS(reason<Fault::kChangesInput>(), "changed its input 1");
}

TEST(Planted, MemoryThatNobodyWroteIsRead) {
  EXPECT_SAYS(reason<Fault::kReadsPastEnd>(), "differs at 0");
  EXPECT_SAYS(reason<Fault::kStale>(), "differs at 0");
}

TEST(Planted, ARunThatReportsAnError) { EXPECT_SAYS(reason<Fault::kFinish>(), "its run reports: a planted error"); }

TEST(Planted, BitsThatDependOnTheOrderOfTasks) { EXPECT_SAYS(reason<Fault::kOrder>(), "the order of tasks"); }

TEST(Planted, ALateRefusalKeepsItsReason) {
  const Verdict v = judged(planted::kernel<Fault::kRefusesLate>(), product(20, 16, 24, true));
  EXPECT_SAYS(v.evidence.rejected, "refuses when it is made: not with this data");
  EXPECT_TRUE(v.lasting);
}

// What a candidate at 20 rows is told when its region has `rows` too.
template <Fault kFault>
Candidate at_other_size(int64_t rows, int64_t n = 24) {
  const ir::Graph here = product(20, 16, n, true), there = product(rows, 16, n, true);
  Candidate c = candidate_of(planted::kernel<kFault>(), here);
  Candidate* list[] = {&c};
  EXPECT_EQ(judged(here, list)[0].evidence.rejected, "") << "right where it is tuned";
  judge_other_dims(here, {false, false, false}, there, device::cpu_target(1), list,
                   [](const ir::Graph& g, std::span<Candidate* const> offered) { return judged(g, offered, true); });
  return c;
}

TEST(Planted, ATimeInWhichNothingWasDoneIsNoTime) {
  const ir::Graph g = product(160, 160, 160, false);
  Candidate lazy = candidate_of(planted::kernel<Fault::kLazy>(), g),
            good = candidate_of(planted::kernel<Fault::kNone>(), g);
  Candidate* list[] = {&lazy, &good};
  const std::vector<Verdict> v = judged(g, list, false, true);
  EXPECT_EQ(v[0].evidence.rejected, "") << "its answers are right";
  EXPECT_FALSE(v[0].evidence.timed());
  EXPECT_SAYS(v[0].evidence.untimed, "did not do its work");
  EXPECT_TRUE(v[1].evidence.timed());
  EXPECT_EQ(v[1].evidence.statistic, kTimeStatistic);
  EXPECT_GE(v[1].evidence.samples, 5);
}

TEST(Planted, WrongOnlyAtASmallerSize) {
  EXPECT_SAYS(at_other_size<Fault::kSmall>(3).evidence.rejected, "at x: f32[3,16]: ");
  EXPECT_EQ(at_other_size<Fault::kSmall>(37).evidence.rejected, "");
}

TEST(Planted, WrongOnlyAtALargerSize) {
  EXPECT_SAYS(at_other_size<Fault::kLarge>(70).evidence.rejected, "at x: f32[70,16]: ");
  EXPECT_EQ(at_other_size<Fault::kLarge>(3).evidence.rejected, "");
}

TEST(Planted, OtherSizesThatAreTooExpensiveAreCountedAsSkipped) {
  const Candidate tried = at_other_size<Fault::kNone>(3), expensive = at_other_size<Fault::kNone>(1'000'000, 80);
  EXPECT_EQ(tried.evidence.shapes, 1);
  EXPECT_EQ(tried.evidence.skipped, 0);
  EXPECT_GT(tried.evidence.shared_runs, 0);
  EXPECT_EQ(expensive.evidence.rejected, "");
  EXPECT_EQ(expensive.evidence.shapes, 0);
  EXPECT_EQ(expensive.evidence.skipped, 1);
}

TEST(Planted, AnOfferAtOtherSizesSharesTheSameMemoryWhereSizesAreEqual) {
  const auto machine = device::cpu_target(1);
  const std::vector<bool> constant(2, false);
  const kernels::Kernel& kernel = planted::kernel<Fault::kOwnInput>();
  Candidate c = candidate_of(kernel, product(20, 16, 16, false));
  ASSERT_EQ(c.offer.in_place, std::vector<int>{0});
  const auto same = offered_for(c, product(3, 16, 16, false), constant, machine);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->offer.in_place, std::vector<int>{0});
  const auto other = offered_for(c, product(3, 16, 24, false), constant, machine);  // no engine shares memory there
  ASSERT_TRUE(other);
  EXPECT_EQ(other->offer.in_place, std::vector<int>{-1});
  c.offer.in_place = {1};
  EXPECT_FALSE(offered_for(c, product(16, 16, 16, false), constant, machine)) << "another input's memory";
  c.offer.config = "other";
  EXPECT_FALSE(offered_for(c, product(3, 16, 24, false), constant, machine));
}

// A product with constant right side and steps of relu and residuals, wrong in one way.
// A gate of one number a channel has the size of what it gates where an image is one pixel: there the kernel could take
// either's memory, and does take that which the engine shares at other sizes.
TEST(OtherSizes, AGateThatIsAsLargeAsWhatItGates) {
  const auto gated = [](int64_t side) {
    const std::string pixels = std::to_string(side);
    auto g = ir::parse_graph("graph { input x: f32[2,16," + pixels + "," + pixels +
                             "]; input s: f32[2,16,1,1]; const t: "
                             "f32[16,1,1] = seeded(1, 1); z = sigmoid(s); m = mul(x, z); y = add(m, t); output y }");
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    return std::move(*g);
  };
  const auto machine = device::this_cpu();
  const std::vector<bool> constant(2, false);
  const kernels::Kernel& kernel = *kernels::find("elementwise");
  const ir::Graph here = gated(8), there = gated(1);
  const auto offers = kernel.offer({&here, constant}, machine);
  ASSERT_TRUE(offers.ok() && offers->size() == 2);
  for (const kernels::Offer& o : *offers) {
    ASSERT_EQ(o.in_place, std::vector<int>{0});
    const auto same = offered_for({&kernel, o}, there, constant, machine);
    ASSERT_TRUE(same);
    EXPECT_EQ(same->offer.in_place, o.in_place);
  }
}

enum class Wrong { kNothing, kLongSums, kSecondStep, kNothingTaken };
template <Wrong kWrong>
Result<std::vector<kernels::Offer>> offer_steps(const kernels::Problem& p, const device::Target& target) {
  const ir::Graph& g = *p.graph;
  if (kWrong == Wrong::kNothingTaken || g.nodes[0]->op != "matmul") return refused("not a product");
  for (const ir::Value* v : g.inputs)
    if (v->type.dtype != DType::kF32 || v->type.rank() != 2) return refused("not of matrices");
  if (!p.constant[1] || g.nodes[0]->in(1) != g.inputs[1]) return refused("its right side is not constant");
  for (size_t k = 1; k < g.nodes.size(); ++k) {
    const ir::Node& n = *g.nodes[k];
    const bool add = n.op == "add" && !n.in(1)->producer && n.in(1)->type == n.out()->type && !n.in(1)->constant;
    if (!add && n.op != "relu") return refused("no such step");
  }
  return std::vector<kernels::Offer>{kernels::row_major_offer(p, target)};
}
template <Wrong kWrong>
Result<std::unique_ptr<kernels::Instance>> make_steps(const kernels::Problem& p, std::string_view,
                                                      const kernels::InstantiateContext& c) {
  const std::vector<int64_t> a = kernels::dims_of(*p.graph->inputs[0]), b = kernels::dims_of(*p.graph->inputs[1]);
  std::vector<int> steps;  // the input that is added, -1: relu
  for (size_t k = 1; k < p.graph->nodes.size(); ++k) {
    const auto& in = p.graph->inputs;
    const auto at = std::find(in.begin(), in.end(), p.graph->nodes[k]->in(1));
    steps.push_back(p.graph->nodes[k]->op == "relu" ? -1 : static_cast<int>(at - in.begin()));
  }
  if (kWrong == Wrong::kSecondStep && steps.size() > 1) steps.resize(1);
  const int64_t sums = kWrong == Wrong::kLongSums ? std::min<int64_t>(a[1], 1536) : a[1];
  return kernels::TaskInstance::make(1, 0, [=, w = c.constants[1]](int64_t, const kernels::Args& args) {
    const auto* x = static_cast<const float*>(args.in[0]);
    for (int64_t i = 0; i < a[0]; ++i)
      for (int64_t j = 0; j < b[1]; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < sums; ++l)
          sum += double{x[i * a[1] + l]} * double{w.as<float>()[static_cast<size_t>(l * b[1] + j)]};
        for (int in : steps)
          sum = in < 0 ? std::max(sum, 0.0)
                       : sum + double{static_cast<const float*>(args.in[static_cast<size_t>(in)])[i * b[1] + j]};
        static_cast<float*>(args.out[0])[i * b[1] + j] = static_cast<float>(sum);
      }
  });
}
template <Wrong kWrong>
SampleVerdict sampled() {
  static const kernels::Kernel k{"steps", 1, "one", "cpu", "products", offer_steps<kWrong>, make_steps<kWrong>};
  planted::Known known;
  known.add(k);
  return Judge(1).samples(k);
}

TEST(Planted, SamplesFindSumsPast1536) {
  EXPECT_EQ(sampled<Wrong::kNothing>().failed, "");
  EXPECT_SAYS(sampled<Wrong::kLongSums>().failed, "f32[7,1600]");
}

TEST(Planted, SamplesFindASecondStepThatIsLeftOut) {
  const std::string failed = sampled<Wrong::kSecondStep>().failed;
  EXPECT_SAYS(failed, "wrong on a sample");
  EXPECT_SAYS(failed, "relu");
  EXPECT_SAYS(failed, "add");
}

TEST(Planted, AKernelOfWhichNoSampleRanIsRefused) {
  const SampleVerdict v = sampled<Wrong::kNothingTaken>();
  EXPECT_EQ(v.samples, 0);
  EXPECT_SAYS(v.failed, "no sample of it ran");
}

TEST(Planted, EveryKernelHasSamplesThatReachIt) {
  for (const kernels::Entry* e : kernels::entries()) {
    if (e->kernel.executor != "cpu") continue;
    const SampleVerdict v = Judge(1).samples(e->kernel);
    EXPECT_EQ(v.failed, "") << e->kernel.name;
    EXPECT_GE(v.samples, 4) << e->kernel.name;
    if (e->kernel.name == "conv_thin_f32" || e->kernel.name == "conv_transpose_thin_f32")
      continue;  // they take no epilogue
    const bool anchor = e->kernel.name.find("conv") != std::string_view::npos || e->kernel.name == "gemm_f32";
    if (anchor) EXPECT_GE(v.samples, 50) << e->kernel.name << ": epilogues";
  }
}

// Answers of two providers for a problem of which no reference is computed.
struct Constant {
  float value = 0;
  void operator()(int64_t, const kernels::Args& args) const {
    for (void* out : args.out) std::fill_n(static_cast<float*>(out), 1300 * 1300, value);
  }
};
template <int kValue>
Result<std::unique_ptr<kernels::Instance>> make_constant(const kernels::Problem&, std::string_view,
                                                         const kernels::InstantiateContext&) {
  return kernels::TaskInstance::make(1, 0, Constant{float{kValue}});
}
Result<std::vector<kernels::Offer>> offer_constant(const kernels::Problem& p, const device::Target& target) {
  return std::vector<kernels::Offer>{kernels::row_major_offer(p, target)};
}

TEST(Judge, WithoutAReferenceTwoProvidersMustAgree) {
  auto g = ir::parse_graph(
      "graph { input x: f32[1300,1300]; input w: f32[1300,1300]; p = matmul(x, w); m = reduce_mean(p); r = relu(p); y "
      "= sub(r, m); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const kernels::Kernel one{"a", 1, "one", "cpu", "", offer_constant, make_constant<1>},
      two{"b", 1, "two", "cpu", "", offer_constant, make_constant<1>},
      three{"c", 1, "three", "cpu", "", offer_constant, make_constant<3>};
  const auto tried = [&](std::vector<const kernels::Kernel*> order) {
    std::vector<Candidate> all;
    std::vector<Candidate*> list;
    for (const kernels::Kernel* k : order) all.push_back(candidate_of(*k, *g));
    for (Candidate& c : all) list.push_back(&c);
    return judged(*g, list);
  };
  const std::vector<Verdict> v = tried({&one, &one, &three, &two});
  for (size_t k : {0u, 1u, 3u}) EXPECT_EQ(v[k].evidence.rejected, "") << k;
  EXPECT_EQ(v[0].evidence.compared_with, "b@1 {}");
  EXPECT_EQ(v[3].evidence.compared_with, "a@1 {}");
  EXPECT_SAYS(v[2].evidence.rejected, "cannot be judged: its reference takes 4 Gflop");
  EXPECT_SAYS(tried({&one})[0].evidence.rejected, "cannot be judged");
}

}  // namespace
}  // namespace peri::tune
