// Verification sees what is wrong: a candidate that is wrong on a sample of its op, one that leaves a few elements of a
// large answer unwritten or wrong, where positions alone would miss it.
#include <algorithm>

#include "tune/judge.hpp"

#include <gtest/gtest.h>

#include "kernels/cpu/task_instance.hpp"
#include "ops/entry.hpp"
#include "tests/tune/planted.hpp"
#include "tune/samples.hpp"
#include "tune/trial.hpp"

namespace peri::tune {
namespace {

// A product as it should be, but for one element that a fault leaves out.
struct Product {
  int64_t m = 0, k = 0, n = 0, wrong = -1;
  void operator()(int64_t, const kernels::Args& args) const {
    const float *x = static_cast<const float*>(args.in[0]), *w = static_cast<const float*>(args.in[1]);
    float* y = static_cast<float*>(args.out[0]);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j) y[i * n + j] += x[i * k + l] * w[l * n + j];
    if (wrong >= 0) y[wrong] += 1;
  }
};
Result<std::vector<kernels::Offer>> offer_product(const kernels::Problem& p, const device::Target& target) {
  const ir::Graph& g = *p.graph;
  if (g.nodes.size() != 1 || g.nodes[0]->op != "matmul" || g.inputs.size() != 2) return refused("not a product");
  if (p.constant[0] || p.constant[1]) return refused("takes no weights");
  for (const ir::Value* v : g.inputs)
    if (v->type.dtype != DType::kF32 || v->type.rank() != 2) return refused("not of matrices");
  return std::vector<kernels::Offer>{kernels::row_major_offer(p, target)};
}
template <bool kFault>
Result<std::unique_ptr<kernels::Instance>> make_product(const kernels::Problem& p, std::string_view,
                                                        const kernels::InstantiateContext&) {
  const std::vector<int64_t> a = kernels::dims_of(*p.graph->inputs[0]), b = kernels::dims_of(*p.graph->inputs[1]);
  const int64_t wrong = kFault && a[0] * b[1] > 0 ? a[0] * b[1] / 2 + 3 : -1;
  return kernels::TaskInstance::make(1, 0, Product{a[0], a[1], b[1], std::min(wrong, a[0] * b[1] - 1)});
}
const kernels::Kernel kGood{"good", 1, "one", "cpu", "products", offer_product, make_product<false>};
const kernels::Kernel kFaulty{"faulty", 1, "two", "cpu", "products", offer_product, make_product<true>};
const kernels::Kernel kFaultyToo{"faulty_too", 1, "one", "cpu", "products", offer_product, make_product<true>};
const kernels::Kernel kOther{"other", 1, "three", "cpu", "products", offer_product, make_product<false>};

std::vector<Verdict> judged(
    const std::vector<const kernels::Kernel*>& order, bool measure = false,
    const char* text = "graph { input x: f32[200,400]; input w: f32[400,300]; y = matmul(x, w); output y }") {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  std::vector<Candidate> candidates;
  for (const kernels::Kernel* k : order) {
    candidates.push_back({k, kernels::row_major_offer({&*g, {false, false}}, device::this_cpu())});
    candidates.back().offer.inputs.resize(2);
    candidates.back().offer.outputs.resize(1);
  }
  std::vector<const Candidate*> list;
  for (const Candidate& c : candidates) list.push_back(&c);
  std::vector<Verdict> out(list.size());
  planted::Known known;
  for (const kernels::Kernel* k : order) known.add(*k);
  Judge(1).judge(*g, {false, false}, list, {.measure = measure, .budget_ms = 1}, [&](size_t k, const Verdict* v) {
    if (v) out[k] = *v;
  });
  return out;
}

// The reference in its place would take hours, and a change of layout has none.
TEST(Judge, WhatIsTooLargeToTryIsNotRejected) {
  const std::vector<Verdict> huge = judged(
      {&kGood}, true, "graph { input x: f32[20000,20000]; input w: f32[20000,20000]; y = matmul(x, w); output y }");
  EXPECT_TRUE(huge[0].evidence.right()) << huge[0].evidence.rejected;
  EXPECT_FALSE(huge[0].evidence.tried());
  EXPECT_NE(huge[0].evidence.untimed.find("too much to try"), std::string::npos) << huge[0].evidence.untimed;
}

TEST(Judge, OneWrongElementIsFoundByTheOtherProvidersAnswer) {
  const std::vector<Verdict> first = judged({&kGood, &kFaulty}), last = judged({&kFaulty, &kGood});
  EXPECT_EQ(first[0].evidence.rejected, "");
  EXPECT_NE(first[1].evidence.rejected.find("differs at 30003"), std::string::npos) << first[1].evidence.rejected;
  EXPECT_NE(last[0].evidence.rejected.find("differs at 30003"), std::string::npos) << "a verdict is revoked";
  EXPECT_EQ(last[1].evidence.rejected, "");
}

TEST(Judge, TheFastestIsVisitedAgainWhenAllWereTriedUnlessItIsAlone) {
  const std::vector<Verdict> two = judged({&kGood, &kGood}, true), one = judged({&kGood}, true);
  EXPECT_GE(std::max(two[0].evidence.visits, two[1].evidence.visits), 2);
  for (const Verdict& v : two) {
    EXPECT_EQ(v.evidence.rejected, "");
    EXPECT_EQ(v.evidence.visits > 1, v.evidence.spread >= 0);
    EXPECT_GE(v.evidence.samples, 3 * v.evidence.visits);
    EXPECT_GT(v.evidence.max_error, 0) << "what verification found stays";
  }
  EXPECT_EQ(one[0].evidence.visits, 1);
  const std::vector<Verdict> wrong = judged({&kGood, &kFaulty}, true);
  EXPECT_NE(wrong[1].evidence.rejected, "");
  EXPECT_EQ(wrong[1].evidence.visits, 0);
}

// What a model leaves of a step's weights in the caches when it comes round to it again.
TEST(Judge, AsMuchPassesThroughTheCachesAsInARunOfTheModel) {
  constexpr size_t kMib = size_t{1} << 20;
  device::Target cpu;
  cpu.caches = {{"L1 data", 48 << 10}, {"L2 unified", 1 << 20}, {"L3 unified", 32 << 20}};
  const auto traffic = [&](double mib, int threads) { return traffic_bytes(mib * kMib, cpu, threads); };
  EXPECT_EQ(traffic(0.01, 2), 64u << 10);
  EXPECT_EQ(traffic(3, 2), 4 * kMib);
  EXPECT_EQ(traffic(20, 2), 4 * kMib) << "it stays in the last cache, and leaves those of two cores";
  EXPECT_EQ(traffic(20, 8), 16 * kMib);
  EXPECT_EQ(traffic(20, 64), 32 * kMib) << "no more than passes in the model";
  EXPECT_EQ(traffic(25, 2), 32 * kMib) << "it does not stay";
  EXPECT_EQ(traffic(400, 2), 40 * kMib);
  cpu.caches.clear();
  EXPECT_EQ(traffic(400, 2), 40 * kMib) << "caches that the system does not tell";
}

TEST(Judge, AgreementIsRecorded) {
  const std::vector<Verdict> v = judged({&kGood, &kOther}), own = judged({&kGood, &kGood});
  EXPECT_EQ(v[0].evidence.compared_with, "other@1 {}");
  EXPECT_EQ(v[1].evidence.compared_with, "good@1 {}");
  EXPECT_EQ(own[1].evidence.compared_with, "good@1 {}");
  EXPECT_EQ(judged({&kGood})[0].evidence.compared_with, "");
  const std::vector<Verdict> three = judged({&kGood, &kGood, &kOther});
  EXPECT_EQ(three[1].evidence.compared_with, "other@1 {}") << "another provider's comes first";
}

TEST(Judge, ALaterCandidateOfAProviderIsHeldAgainstAnotherAnswerToo) {
  const auto wrong = [](const Verdict& v) { return v.evidence.rejected.find("differs at 30003") != std::string::npos; };
  const std::vector<Verdict> before = judged({&kGood, &kFaultyToo, &kOther}), own = judged({&kGood, &kFaultyToo}),
                             after = judged({&kGood, &kOther, &kFaultyToo, &kGood}),
                             first = judged({&kFaultyToo, &kGood});
  EXPECT_TRUE(wrong(before[1])) << before[1].evidence.rejected << ": no other provider was tried before it";
  EXPECT_TRUE(wrong(own[1])) << own[1].evidence.rejected << ": of one provider alone";
  EXPECT_TRUE(wrong(after[2])) << after[2].evidence.rejected;
  EXPECT_TRUE(wrong(first[0])) << first[0].evidence.rejected << ": a verdict is revoked";
  for (const Verdict& v : {before[0], before[2], own[0], after[0], after[1], after[3], first[1]})
    EXPECT_EQ(v.evidence.rejected, "");
}

TEST(Judge, AKernelThatIsWrongOnASampleIsRefused) {
  planted::Known known;
  known.add(kGood);
  known.add(kFaulty);
  const SampleVerdict good = Judge(1).samples(kGood), faulty = Judge(1).samples(kFaulty);
  EXPECT_EQ(good.failed, "");
  EXPECT_GT(good.samples, 0);
  EXPECT_NE(faulty.failed.find("wrong on a sample"), std::string::npos);
  EXPECT_NE(faulty.failed.find("matmul"), std::string::npos) << faulty.failed;
}

TEST(Judge, RegionsOfInterestLieInTheirImages) {
  for (const char* text : {"graph { input x: f32[3,2,40,50]; input r: f32[20,5]; y = max_roi_pool(x, r) "
                           "{pooled_shape=[3,4], spatial_scale=0.0625}; output y }",
                           "graph { input x: f16[3,2,40,50]; input r: f16[20,5]; y = max_roi_pool(x, r) "
                           "{pooled_shape=[2,2]}; output y }"}) {
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    const auto arguments = make_arguments(*g, 7);
    std::vector<ops::RefTensor> in;
    for (const Tensor& t : *arguments) in.push_back(ops::to_ref(t));
    const auto out = ops::run_reference(*g, in);
    ASSERT_TRUE(out.ok()) << out.error().text();
    const auto filled = std::count_if((*out)[0].f.begin(), (*out)[0].f.end(), [](double v) { return v != 0; });
    EXPECT_GT(filled, std::ssize((*out)[0].f) / 2) << "bins that hold something";
    std::vector<double> images;
    for (size_t k = 0; k < in[1].f.size(); k += 5) images.push_back(in[1].f[k]);
    std::sort(images.begin(), images.end());
    EXPECT_EQ(std::unique(images.begin(), images.end()) - images.begin(), 3);
  }
}

TEST(Judge, ExpensiveProblemsAreHeldAgainstThousandsOfPositionsWithEveryEnd) {
  auto g = ir::parse_graph("graph { input x: f32[200,400]; input w: f32[400,300]; y = matmul(x, w); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const auto arguments = make_arguments(*g, 7);
  const auto expected = make_expected(*g, *arguments, 1, 7);
  ASSERT_TRUE(expected.ok());
  const std::vector<int64_t>& at = expected->positions;
  EXPECT_GE(at.size(), 4096u);
  EXPECT_EQ(at.front(), 0);
  EXPECT_EQ(at.back(), 200 * 300 - 1);
  int64_t last_column = 0, last_row = 0;
  for (size_t k = 0; k < at.size(); ++k) {
    if (k) EXPECT_LT(at[k - 1], at[k]);
    last_column += at[k] % 300 == 299;
    last_row += at[k] / 300 == 199;
  }
  EXPECT_GE(last_column, 32);
  EXPECT_GE(last_row, 64);
}

}  // namespace
}  // namespace peri::tune
