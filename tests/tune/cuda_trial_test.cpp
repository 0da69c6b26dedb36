// Trials on a GPU, without one: the fake driver runs what the host's compiler makes of a kernel's text. A right kernel
// is timed by chains, one that is wrong in a setting, writes past its end, never ends or ends the device is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/device/cuda_fakes.hpp"
#include "tests/places.hpp"
#include "tests/tune/planted.hpp"
#include "tests/tune/planted_sum.hpp"
#include "tune/arguments.hpp"
#include "tune/chains.hpp"
#include "tune/trial.hpp"
#include "tune/worker.hpp"

namespace peri::tune {
namespace {
using device::tests::Fakes;
using device::tests::Variable;

ir::Graph parsed(const char* text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
  return std::move(*g);
}
const char* const kSum = "graph { input x: f32[7,100]; input w: f32[7,100]; y = add(x, w); output y }";

class CudaTrial : public device::tests::HostedGpu {
 protected:
  static Candidate candidate(const kernels::Kernel& kernel, const ir::Graph& g) {
    device::Target target = device::cpu_target(1);
    target.isas.push_back("sm_90");
    auto offers = kernel.offer({&g, std::vector<bool>(g.inputs.size(), false)}, target);
    EXPECT_TRUE(offers.ok()) << (offers.ok() ? "" : offers.error().text());
    Candidate out{&kernel, std::move(offers->front())};
    out.offer.inputs.resize(g.inputs.size());
    out.offer.outputs.resize(g.outputs.size());
    return out;
  }
  static Verdict judged(const kernels::Kernel& kernel, bool weights = false) {
    planted::Known known;
    known.add(kernel);
    const ir::Graph g = parsed(kSum);
    const Candidate c = candidate(kernel, g);
    const Candidate* list[] = {&c};
    Verdict out;
    Judge(1).judge(g, {false, weights}, list, {.budget_ms = 1}, [&](size_t, const Verdict* v) {
      if (v) out = *v;
    });
    return out;
  }
};

TEST_F(CudaTrial, ARightOneIsTimedByWhatALaunchMoreCosts) {
  for (const bool weights : {false, true}) {
    const Evidence e = judged(planted::sum_kernel<0>(), weights).evidence;
    EXPECT_EQ(e.rejected, "");
    EXPECT_GE(e.max_error, 0);
    EXPECT_LE(e.max_error, 1);
    EXPECT_EQ(e.statistic, kChainStatistic);
    EXPECT_NEAR(e.time_ms, 3e-3, 1e-6) << "the fake's clock counts a launch and its blocks; " << e.untimed;
    EXPECT_GE(e.samples, 6);
    EXPECT_EQ(e.clock_mhz, 1980);
  }
}

TEST_F(CudaTrial, AWriteBehindTheResultIsSeen) {
  const Verdict v = judged(planted::sum_kernel<1>());
  EXPECT_NE(v.evidence.rejected.find("a kernel wrote past the end of its result 0"), std::string::npos)
      << v.evidence.rejected;
}

// A refusal with the compiler's log, and the next kernel is tried as if nothing had been.
TEST_F(CudaTrial, AKernelThatDoesNotCompileIsRefusedWithTheLog) {
  kernels::Kernel broken = planted::sum_kernel<0>();
  broken.name = "planted_broken";
  broken.tunables = {};
  broken.instantiate = [](const kernels::Problem&, std::string_view, const kernels::InstantiateContext&) {
    return kernels::cuda::LaunchInstance::make({{.entry = "peri_planted_broken", .text = "this is broken"}});
  };
  const Verdict v = judged(broken);
  for (const char* part : {"the source does not compile", "line 1: error: broken"})
    EXPECT_NE(v.evidence.rejected.find(part), std::string::npos) << part << " in " << v.evidence.rejected;
  EXPECT_EQ(judged(planted::sum_kernel<0>()).evidence.rejected, "");
}

TEST_F(CudaTrial, AChangedInputIsSeen) {
  EXPECT_EQ(judged(planted::sum_kernel<-1>()).evidence.rejected, "it changed its input 0");
}

// Of a large answer the judged positions and seeded parts are read; a wrong one is seen there, another run by its
// checksum.
TEST_F(CudaTrial, OfALargeAnswerThePositionsAreRead) {
  const ir::Graph g = parsed("graph { input x: f32[7000,100]; input w: f32[7000,100]; y = add(x, w); output y }");
  planted::Known known;
  TrialPlaces places(1);
  ThreadPool pool(1);
  auto arguments = make_arguments(g, 7);
  ASSERT_TRUE(arguments.ok());
  auto given = Given::make(std::move(*arguments), {false, false});
  ASSERT_TRUE(given.ok());
  std::vector<int64_t> positions = {0, 1, 699, 350000, 699999};
  const auto expected = expected_at(g, given->row_major(), 1, positions);
  ASSERT_TRUE(expected.ok());
  const auto error = [&](const kernels::Kernel& kernel, const char* config) {
    known.add(kernel);
    Candidate c = candidate(kernel, g);
    c.offer.config = config;
    const auto opened = places.of(kernel);
    EXPECT_TRUE(opened.ok());
    TrialPlace place = **opened;
    EXPECT_TRUE(place.checksums);
    place.most_read = 1 << 20;
    auto trial = Trial::create(g, {false, false}, c, &*given, place, &pool);
    EXPECT_TRUE(trial.ok());
    Evidence e;
    Answers answers;
    const auto verified = (*trial)->verify(&*expected, &e, &answers);
    if (verified.ok()) EXPECT_FALSE(answers.parts[0].empty());
    return verified.ok() ? std::string() : verified.error().text();
  };
  EXPECT_EQ(error(planted::sum_kernel<0>(), ""), "");
  EXPECT_NE(error(planted::sum_kernel<0>(), format("blocks=%d", planted::kWrongBlocks).c_str()), "");
}

TEST_F(CudaTrial, SettingsAreTriedAndTheWrongOneIsRefused) {
  planted::Known known;
  known.add(planted::sum_kernel<0>());
  Options o;
  o.provider = "planted";
  o.executors = {"cuda"};
  o.own_executor = "cuda";
  o.settings = 3;
  o.budget_ms = 1;
  Tuner tuner(o);
  const Candidates& all = tuner.candidates(parsed(kSum), {false, true});
  ASSERT_EQ(all.list.size(), 4u);
  EXPECT_EQ(all.list[0].offer.config, "blocks=1") << "two units of the fake's clock";
  EXPECT_NEAR(all.list[0].evidence.time_ms, 2e-3, 1e-6);
  EXPECT_EQ(all.list[3].offer.config, format("blocks=%d", int{planted::kWrongBlocks}));
  EXPECT_FALSE(all.list[3].evidence.right());
  for (size_t k = 0; k < 3; ++k) EXPECT_TRUE(all.list[k].evidence.right()) << all.list[k].evidence.rejected;
}

// Of two GPUs of which one may not be used, the one that is named tries: here, in a tuner and in its worker.
TEST_F(CudaTrial, TheDeviceThatIsNamedTries) {
  const Variable two("FAKE_CUDA_DEVICES", "2"), second("FAKE_CUDA_ONLY", "1");
  const ir::Graph g = parsed(kSum);
  const Candidate own = candidate(*kernels::find("cuda_elementwise"), g);
  const auto rejected = [&](auto& judge, const Candidate& c) {
    Verdict out;
    const Candidate* list[] = {&c};
    (void)judge.judge(g, {false, false}, list, Terms{.budget_ms = 1}, [&](size_t, const Verdict* v) {
      if (v) out = *v;
    });
    return out.evidence.rejected;
  };
  Judge first(1), named(1, "cuda:1");
  EXPECT_NE(rejected(first, own).find("(46)"), std::string::npos) << "the first may not be used";
  EXPECT_EQ(rejected(named, own), "");

  const std::string program = std::string(tests::kBuildDir) + "/bin/failing_worker";
  for (const auto& [device, says] : {std::pair("", "(46)"), std::pair("cuda:1", "")}) {
    auto worker = RemoteJudge::start(program, 1, 60, device);
    ASSERT_TRUE(worker.ok()) << worker.error().text();
    const std::string why = rejected(**worker, own);
    EXPECT_TRUE(*says ? why.find(says) != std::string::npos : why.empty()) << device << ": " << why;
  }

  planted::Known known;  // from here on the worker's kernels are others
  known.add(planted::sum_kernel<0>());
  Options o;
  o.provider = "planted";
  o.executors = {"cuda"};
  o.own_executor = "cuda";
  o.budget_ms = 1;
  o.device = "cuda:1";
  Tuner tuner(o);
  const Candidates& all = tuner.candidates(g, {false, true});
  ASSERT_EQ(all.list.size(), 1u);
  EXPECT_EQ(all.list[0].evidence.rejected, "");
}

// A library is asked for the GPU that the place has, and stays open for the next question.
TEST_F(CudaTrial, ALibraryIsAskedForTheDeviceThatIsNamed) {
  const Variable two("FAKE_CUDA_DEVICES", "2"), second("FAKE_CUDA_ONLY", "1");
  Fakes::control<void()>("cublaslt", "fake_lt_reset")();
  std::filesystem::create_symlink(device::tests::fake_file("cublaslt"), fakes_.folder.path / "libcublasLt.so.13");
  const ir::Graph g = parsed("graph { input x: f16[24,64]; input w: f16[64,32]; y = matmul(x, w); output y }");
  Candidate c{kernels::find("cuda_blaslt"), {.config = std::string(kernels::kHeuristic)}};
  c.offer.inputs.resize(2);
  c.offer.outputs.resize(1);
  const Resolved first = Judge(1).resolve(g, {false, false}, c);
  EXPECT_NE(first.failed.find("(46)"), std::string::npos) << first.failed;
  Judge judge(1, "cuda:1");
  for (int k = 0; k < 2; ++k) {
    const Resolved named = judge.resolve(g, {false, false}, c);
    EXPECT_EQ(named.failed, "");
    EXPECT_GE(named.configs.size(), 1u);
  }
}

TEST_F(CudaTrial, AWorkerTellsWhatACopyTakes) {
  const auto same = read_crossing(*parse_json(crossing_text({0.5, 1000, true})));
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(*same, (Crossing{0.5, 1000, true}));
  EXPECT_FALSE(read_crossing(*parse_json("{\"wait_ms\":-1,\"bytes_per_ms\":5}")).ok());
  auto worker = RemoteJudge::start(std::string(tests::kBuildDir) + "/bin/failing_worker", 1, 60);
  ASSERT_TRUE(worker.ok()) << worker.error().text();
  const auto told = (*worker)->crossing("cuda");
  ASSERT_TRUE(told.ok()) << told.error().text();
  EXPECT_TRUE(told->measured);
  EXPECT_GT(told->bytes_per_ms, 0);
  const auto none = (*worker)->crossing("teapot");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().text().find("teapot"), std::string::npos) << none.error().text();
  EXPECT_EQ((*worker)->deaths(), 0);
}

class CudaWorker : public CudaTrial {
 protected:
  // What a worker says of a transposition, and of a sum after it.
  void judge(const char* fault, double device_patience_s, const char* kernel = "peri_copy") {
    const Variable planted(fault, kernel);
    auto worker =
        RemoteJudge::start(std::string(tests::kBuildDir) + "/bin/failing_worker", 1, 60, "", device_patience_s);
    ASSERT_TRUE(worker.ok()) << worker.error().text();
    const auto ask = [&](const char* kernel, const char* text, Verdict* out) {
      const ir::Graph g = parsed(text);
      const Candidate c = candidate(*kernels::find(kernel), g);
      const Candidate* list[] = {&c};
      const Status done = (*worker)->judge(g, std::vector<bool>(g.inputs.size(), false), list, {.budget_ms = 1},
                                           [&](size_t, const Verdict* v) {
                                             if (v) *out = *v;
                                           });
      EXPECT_TRUE(done.ok()) << done.error().text();
    };
    ask("cuda_copy", "graph { input x: f32[5,30]; y = transpose(x) {perm=[1,0]}; output y }", &moved_);
    ask("cuda_elementwise", kSum, &added_);
    deaths_ = (*worker)->deaths();
  }
  Verdict moved_, added_;
  int64_t deaths_ = 0;
};

TEST_F(CudaWorker, WithoutAFaultBothAreRight) {
  judge("FAKE_CUDA_NOTHING", 60);
  for (const Verdict* v : {&moved_, &added_}) {
    EXPECT_EQ(v->evidence.rejected, "");
    EXPECT_TRUE(v->evidence.timed()) << v->evidence.untimed;
  }
  EXPECT_EQ(deaths_, 0);
}

TEST_F(CudaWorker, AKernelThatNeverEndsIsEnded) {
  judge("FAKE_CUDA_HANGS", 5);
  EXPECT_EQ(moved_.evidence.rejected, "the worker gave no answer for 5 s");
  EXPECT_EQ(added_.evidence.rejected, "");
  EXPECT_TRUE(added_.evidence.timed());
  EXPECT_EQ(deaths_, 1);
}

// Code comes late where other programs run beside the build: what is compiled does not hang.
TEST_F(CudaWorker, CodeThatComesLateIsWaitedFor) {
  judge("FAKE_NVRTC_SECONDS", 3, "4");
  EXPECT_EQ(moved_.evidence.rejected, "");
  EXPECT_EQ(added_.evidence.rejected, "");
  EXPECT_EQ(deaths_, 0);
}

TEST_F(CudaWorker, AKernelThatEndsTheDeviceCostsTheWorkerOnly) {
  judge("FAKE_CUDA_TRAPS", 60);
  EXPECT_NE(moved_.evidence.rejected.find("(700)"), std::string::npos) << moved_.evidence.rejected;
  EXPECT_EQ(added_.evidence.rejected, "");
  EXPECT_TRUE(added_.evidence.timed());
  EXPECT_EQ(deaths_, 1);
}

}  // namespace
}  // namespace peri::tune
