// On a device a part of the samples runs: what counts is what ran, and a sample that cannot be made gives its turn to
// the next one.
#include <gtest/gtest.h>

#include <set>

#include "kernels/entry.hpp"
#include "problem/problem.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tune/sample_regions.hpp"
#include "tune/samples.hpp"
#include "tune/wire.hpp"

namespace peri::tune {
namespace {
using device::tests::Fakes;
using device::tests::Folder;
using device::tests::Variable;

// What the kernel of the test takes, and what it refuses when it is made.
struct Planted {
  const kernels::Kernel* real = kernels::find("cuda_elementwise");
  std::set<std::string> takes = {}, refuses = {};
};
Planted& planted() {
  static Planted p;
  return p;
}
Result<std::vector<kernels::Offer>> offer_some(const kernels::Problem& p, const device::Target& target) {
  if (!planted().takes.contains(problem::identity(*p.graph, p.constant))) return refused("not taken");
  PERI_ASSIGN(std::vector<kernels::Offer> offers, planted().real->offer(p, target));
  offers.resize(1);
  return offers;
}
Result<std::unique_ptr<kernels::Instance>> make_some(const kernels::Problem& p, std::string_view config,
                                                     const kernels::InstantiateContext& c) {
  if (planted().refuses.contains(problem::identity(*p.graph, p.constant))) return refused("not this one");
  return planted().real->instantiate(p, config, c);
}

TEST(DeviceSamples, WhatCouldNotBeMadeIsNotTakenForRun) {
  const Folder folder;
  const Variable compiled("FAKE_CUDA_COMPILES", folder.path.string());
  const Variable cache("PERI_CACHE", (folder.path / "cache").string());
  std::filesystem::create_directories(folder.path / "cache");
  const Fakes fakes{{"libcuda.so.1", "driver"}, {"libnvidia-ml.so.1", "nvrtc"}, {"libnvrtc.so.13", "nvrtc"}};
  Fakes::control<void()>("driver", "fake_reset")();
  kernels::Kernel kernel = *planted().real;
  kernel.name = "some_elementwise";
  kernel.offer = offer_some;
  kernel.instantiate = make_some;
  kernel.samples = {};
  const kernels::AddedKernel added(kernel);
  constexpr int64_t kTaken = 40;
  device::Target gpu = device::cpu_target(1);
  gpu.isas.push_back("sm_90");
  int64_t offered = 0;
  for (const SampleProblem& p : common_problems()) {
    if (offered == kTaken) break;
    const std::string text = problem::identity(p.region, p.constant);
    const auto offers = planted().real->offer({&p.region, p.constant}, gpu);
    if (p.region.nodes.size() != 1 || !offers.ok() || offers->empty() || !planted().takes.insert(text).second) continue;
    if (offered++ % 8 == 0) planted().refuses.insert(text);
  }
  ASSERT_EQ(offered, kTaken);
  TrialPlaces places(1);
  const auto place = places.of(kernel);
  ASSERT_TRUE(place.ok()) << place.error().text();
  ThreadPool pool(1);
  const SampleVerdict v = check_samples(kernel, **place, &pool);
  EXPECT_EQ(v.failed, "");
  EXPECT_GE(v.samples, kTaken / 16) << "each eighth of them is one that is refused";
  EXPECT_GT(v.unmade, 0);
  EXPECT_GE(v.samples + v.unmade + v.left_out, kTaken) << "told are all; the same problem may stand there twice";
  const auto told = read_samples(*parse_json(samples_text(v)));
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->samples, v.samples);
  EXPECT_EQ(told->left_out, v.left_out);
  EXPECT_EQ(told->unmade, v.unmade);
}

// Each is a text of its own: of a kernel that takes samples of hundreds of ops some run.
TEST(DeviceSamples, OfManyOnlySomeRun) {
  device::Target gpu = device::cpu_target(1);
  gpu.isas.push_back("sm_90");
  const kernels::Kernel& kernel = *kernels::find("cuda_elementwise");
  size_t taken = 0, run = 0;
  for (const SampleProblem& p : common_problems()) {
    const auto offers = kernel.offer({&p.region, p.constant}, gpu);
    taken += offers.ok() && !offers->empty();
  }
  std::set<std::string> ops;
  each_sample_of_share(kernel, gpu, [&](const kernels::Problem& p, const kernels::Offer&) {
    ++run;
    ops.insert(p.graph->nodes.front()->op);
  });
  EXPECT_GT(taken, 200u);
  EXPECT_LE(run, 32 + kernel.samples.size());
  EXPECT_GE(ops.size(), 12u) << "they are spread over all of them";
}

}  // namespace
}  // namespace peri::tune
