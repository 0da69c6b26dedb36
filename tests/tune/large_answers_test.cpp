// Answers too large to be read from a device: they are held against others' by seeded parts, what is wrong between the
// judged positions is seen, and what was compared is not tried again in the next build.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/device/cuda_fakes.hpp"
#include "tests/tune/planted.hpp"
#include "tests/tune/planted_sum.hpp"
#include "tune/apart.hpp"
#include "tune/arguments.hpp"
#include "tune/peers.hpp"
#include "tune/trial.hpp"

namespace peri::tune {
namespace {

// y = x + w, one more from element kFrom to kTo; z = x - w by 16 channels, what pads it other in each run.
template <int kFrom, int kTo, bool kTwo>
Result<std::unique_ptr<kernels::Instance>> make(const kernels::Problem& p, std::string_view,
                                                const kernels::InstantiateContext&) {
  const std::vector<int64_t> dims = kernels::dims_of(*p.graph->outputs[0]);
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  kernels::cuda::KernelLaunch l;
  l.entry = format("peri_large_%d_%d", kFrom, kTo);
  l.text = "PERI_SHARED int peri_runs = 0;\nextern \"C\" __global__ void " + l.entry +
           "(const float* x, const float* w, float* y, " + (kTwo ? "float* z, " : "") +
           "long long n, long long from, long long to, long long pixels) {\n"
           "  if (threadIdx.x == 0) ++peri_runs;\n"
           "  for (long long i = threadIdx.x; i < n; i += 256) {\n"
           "    y[i] = x[i] + w[i] + (i >= from && i < to ? 1.0f : 0.0f);\n" +
           (kTwo ? "    z[i % pixels * 16 + i / pixels] = x[i] - w[i];\n"
                   "    if (i < pixels) for (int c = 3; c < 16; ++c) z[i * 16 + c] = peri_runs;\n"
                 : "") +
           "  }\n}\n";
  l.blocks = 1;
  using From = kernels::cuda::LaunchArgument::From;
  l.arguments = {{From::kInput, 0}, {From::kInput, 1}, {From::kOutput, 0}};
  if (kTwo) l.arguments.push_back({From::kOutput, 1});
  l.sizes = {n, kFrom, kTo, n / 3};
  return kernels::cuda::LaunchInstance::make({l});
}
Result<std::vector<kernels::Offer>> offer(const kernels::Problem& p, const device::Target&) {
  kernels::Offer o;
  o.inputs.resize(p.graph->inputs.size());
  o.outputs.resize(p.graph->outputs.size());
  return std::vector<kernels::Offer>{o};
}
template <int kFrom, int kTo, bool kTwo = false>
kernels::Kernel planted(std::string_view name, std::string_view provider) {
  return {.name = name,
          .provider = provider,
          .executor = "cuda",
          .takes = "what a test plants",
          .offer = offer,
          .instantiate = make<kFrom, kTo, kTwo>};
}

class LargeAnswers : public device::tests::HostedGpu {
 protected:
  void state(const char* text) {
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
    region_ = std::move(*g);
    auto arguments = make_arguments(region_, 7);
    ASSERT_TRUE(arguments.ok());
    auto given = Given::make(std::move(*arguments), {false, false});
    ASSERT_TRUE(given.ok());
    given_.emplace(std::move(*given));
  }
  // What a trial says of the kernel, where only so much is read in whole.
  Result<double> verified(const Candidate& c, const Expected& expected, Evidence* evidence, Answers* answers) {
    const auto opened = places_.of(*c.kernel);
    PERI_TRY(opened);
    TrialPlace place = **opened;
    place.most_read = 1 << 20;
    PERI_ASSIGN(const auto trial, Trial::create(region_, {false, false}, c, &*given_, place, &pool_));
    return trial->verify(&expected, evidence, answers);
  }

  TrialPlaces places_{1};
  ThreadPool pool_{1};
  ir::Graph region_;
  std::optional<Given> given_;
};

TEST_F(LargeAnswers, AreHeldAgainstEachOtherByPartsAndForGood) {
  state("graph { input x: f32[30000,100]; input w: f32[30000,100]; y = add(x, w); output y }");
  const auto expected = expected_at(region_, given_->row_major(), 1, {0, 1, 699, 350000, 2999999});
  ASSERT_TRUE(expected.ok());
  // Two rows between the judged positions are wrong in the second.
  const kernels::Kernel kernels[] = {planted<0, 0>("large_right", "one"), planted<400000, 400200>("large_wrong", "two"),
                                     planted<1, 1>("large_too", "three")};
  std::vector<Candidate> all;
  planted::Known known;
  for (const kernels::Kernel& k : kernels) {
    known.add(k);
    all.push_back({&k, offer({&region_, {false, false}}, device::Target())->front()});
  }
  const Told told = [&](size_t k, const Verdict* v) { all[k].evidence = v->evidence; };
  Peers peers(region_, all.size(), told);
  for (size_t k = 0; k < all.size(); ++k) {
    Verdict v;
    Answers answers;
    const auto error = verified(all[k], *expected, &v.evidence, &answers);
    ASSERT_TRUE(error.ok()) << "at the judged positions all are right: " << error.error().text();
    EXPECT_LT(answers.parts[0].size(), 3000000u / 2);
    EXPECT_GT(answers.parts[0].size(), 60000u);
    v.evidence.max_error = *error;
    v.evidence.positions = position_count(*expected);
    v.evidence.time_ms = 1;
    peers.compare(k, all[k], *expected, given_->row_major(), 1, std::move(answers), &v);
    peers.tell(k, v);
  }
  EXPECT_TRUE(all[0].evidence.right()) << all[0].evidence.rejected;
  EXPECT_NE(all[1].evidence.rejected.find("output 0 differs at 400"), std::string::npos) << all[1].evidence.rejected;
  EXPECT_TRUE(all[2].evidence.right()) << all[2].evidence.rejected;
  EXPECT_EQ(all[0].evidence.compared_with, all[2].id());
  EXPECT_EQ(all[2].evidence.compared_with, all[0].id());
  EXPECT_TRUE(tried_apart(all, {}).empty()) << "they are known by now";
}

// One result is large and read in parts, the other one is padded by what differs from run to run.
TEST_F(LargeAnswers, WhatPadsALayoutIsNoPartOfAnAnswer) {
  state(
      "graph { input x: f32[1,3,300,400]; input w: f32[1,3,300,400]; y = add(x, w); z = sub(x, w); output y; output z "
      "}");
  Expected expected;
  for (size_t k = 0; k < 2; ++k) {
    auto alone = std::make_shared<ir::Graph>(region_.clone());
    alone->outputs = {alone->outputs[k]};
    alone->output_names = {alone->output_names[k]};
    alone->erase_dead();
    auto one = expected_at(*alone, given_->row_major(), 1, {0, 7, 120000, 359999});
    ASSERT_TRUE(one.ok());
    one->region = std::move(alone);
    expected.each.push_back(std::move(*one));
  }
  planted::Known known;
  const kernels::Kernel padded = planted<0, 0, true>("large_padded", "one");
  known.add(padded);
  Candidate c{&padded, offer({&region_, {false, false}}, device::Target())->front()};
  c.offer.outputs[1] = ir::Layout{{0, 1, 2, 3}, 1, 16};
  Evidence e;
  Answers answers;
  const auto error = verified(c, expected, &e, &answers);
  ASSERT_TRUE(error.ok()) << error.error().text();
  EXPECT_GE(e.runs, 2);
  EXPECT_FALSE(answers.parts[0].empty());
  EXPECT_TRUE(answers.parts[1].empty());
}

TEST(LargeAnswer, PartsLieEverywhere) {
  for (const int64_t count : {int64_t{1}, int64_t{15}, int64_t{100000}, int64_t{40} << 20}) {
    const std::vector<int64_t> parts = part_positions(count, 7);
    EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
    EXPECT_EQ(std::adjacent_find(parts.begin(), parts.end()), parts.end());
    EXPECT_GE(parts.front(), 0);
    EXPECT_LT(parts.back(), count);
    int64_t gap = 0;
    for (size_t k = 1; k < parts.size(); ++k) gap = std::max(gap, parts[k] - parts[k - 1]);
    EXPECT_LT(gap, 2 * kPartStretch);
    EXPECT_LE(static_cast<int64_t>(parts.size()), std::max(count / 16, std::min(count, kMinParts * kPartRun)));
  }
}

}  // namespace
}  // namespace peri::tune
