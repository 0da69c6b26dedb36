// A kernel from outside is built with like any other, on a GPU that is none: verified on samples of its own pattern,
// timed, chosen, run with its own order of parameters. One that is wrong, writes past its end or does not compile is a
// refusal with the reason, and the build goes on without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "build/build.hpp"
#include "device/cuda/compiler.hpp"
#include "exec/entry.hpp"
#include "exec/region/checked_region.hpp"
#include "kernels/outside/outside.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/places.hpp"

namespace peri::build {
namespace {
using device::tests::Fakes;
using device::tests::Folder;

// The parameters of the kernel below, as PTX declares them.
constexpr const char* kParameters =
    "(.param .u64 x, .param .u32 c, .param .u64 none, .param .u64 y, .param .u64 n, .param .u64 w)";

// The square of a difference, with a loop over `EACH` elements a thread.
constexpr const char* kText =
    "extern \"C\" __global__ void peri_NAME(const float* x, int c, const void* none, float* y, long long n, const "
    "float* "
    "w) {\n"
    "  const long long at = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * EACH;\n"
    "  for (long long i = at; i < at + EACH; ++i)\n"
    "    if (!none && i < n * c + MORE) y[i] = i < n * c ? (x[i] - w[i]) * (x[i] - w[i]) + WRONG : 1.0f;\n"
    "}\n";

class OutsideKernel : public device::tests::HostedGpu {
 protected:
  // What the word is replaced by; MORE and WRONG are 0 else.
  static std::string source(const std::string& name, const std::string& word, const std::string& by) {
    std::string text = kText;
    const auto put = [&](const std::string& from, const std::string& to) {
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    };
    if (!word.empty()) put(word, by);
    put("NAME", name);
    put("MORE", "0");
    put("WRONG", "0");
    return text;
  }
  const kernels::Kernel& added(const std::string& name, const std::string& word = "", const std::string& by = "") {
    return added_text(name, "cuda", source(name, word, by), "\"tunables\": {\"EACH\": [4, 1]}, ");
  }
  static const kernels::Kernel& added_text(const std::string& name, const std::string& form, const std::string& text,
                                           const std::string& more) {
    const std::string each = form == "cuda" ? "EACH" : "1";
    static const Folder kFiles;  // as long as the kernels, which are never taken away
    std::ofstream(kFiles.path / (name + "." + form)) << text;
    const std::string manifest = (kFiles.path / (name + ".json")).string();
    std::ofstream(manifest)
        << "{\"name\": \"" << name << "\", \"version\": 7, \"source\": {\"" << form << "\": \"" << name << "." << form
        << "\"}, \"chips\": [\"sm_80+\"], \"entry\": \"peri_" << name << "\", " << more
        << "\"threads\": 32, \"sizes\": {\"c\": {\"multiple_of\": 4}}, \"grid\": [\"floordiv(n*c + 32*" << each
        << " - 1, 32*" << each << ")\"], "
        << "\"pattern\": \"graph { input x: f32[n,c]; input w: f32[n,c]; d = sub(x, w); y = "
           "mul(d, d); output y }\", \"arguments\": [\"x\", \"i32 c\", \"null\", \"y\", \"i64 "
           "n\", \"w\"]}";
    const auto k = kernels::outside::add(manifest);
    EXPECT_TRUE(k.ok()) << k.error().text();
    return **k;
  }
  static constexpr const char* kSquares =
      "graph { input x: f32[batch,40]; input w: f32[batch,40]; d = sub(x, w); y = mul(d, d); output y }";
  static Result<Built> built(int settings = 0, const std::string& worker = "", const std::string& backend = "cuda",
                             const std::string& graph = kSquares) {
    compile::Imported model;
    auto g = ir::parse_graph(graph);
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    model.graph = std::move(*g);
    Options o;
    o.compile.model = "outside";
    o.compile.backend = backend;
    o.compile.dims["batch"] = 30;
    if (backend == "cuda") o.compile.tune.provider = std::string(kernels::outside::kProvider);
    o.compile.tune.settings = settings;
    o.compile.tune.budget_ms = 1;
    o.compile.tune.worker = worker;
    o.judge = true;
    static const auto kTable = exec::table();
    o.executors = kTable;
    return build_engine(o, std::move(model));
  }
  // (x - 2.5)^2 of 0, 1, ... by an engine of its own.
  static Result<std::vector<Tensor>> squares(const Built& b) {
    runtime::WeightSource weights;
    weights.tensors = b.compiled.weights;
    static const auto kTable = exec::table();
    PERI_ASSIGN(const auto engine, runtime::Engine::create(b.compiled.program, weights, engine_options(kTable, 1)));
    PERI_ASSIGN(const auto session, runtime::Session::create(engine));
    std::vector<float> x;
    for (int64_t i = 0; i < 1200; ++i) x.push_back(static_cast<float>(i));
    const std::vector<float> w(x.size(), 2.5F);
    return session->run(std::vector<Tensor>{Tensor::of_f32({30, 40}, x), Tensor::of_f32({30, 40}, w)});
  }
  // Of all kernels of this process; that one was not taken.
  static std::string refusals(const Built& b, const std::string& kernel) {
    std::string out;
    for (const lower::StepReport& s : b.compiled.steps) {
      EXPECT_EQ(s.chosen.find(kernel), std::string::npos) << s.chosen;

      for (const auto& [id, evidence] : s.others)
        if (id.starts_with(kernel)) out += id + ": " + evidence.rejected + "\n";
      for (const auto& [name, reason] : s.refusals)
        if (name.starts_with(kernel)) out += name + ": " + reason + "\n";
    }
    return out;
  }
  // Of the kernel's candidate, chosen or not.
  static tune::Evidence evidence_of(const Built& b, const std::string& kernel) {
    for (const lower::StepReport& s : b.compiled.steps) {
      if (s.chosen.starts_with(kernel)) return s.evidence;
      for (const auto& [id, evidence] : s.others)
        if (id.starts_with(kernel)) return evidence;
    }
    ADD_FAILURE() << kernel << " is not a candidate";
    return {};
  }
};

TEST_F(OutsideKernel, IsVerifiedTimedChosenAndRight) {
  const kernels::Kernel& k = added("outside_squares");
  const auto b = built(1);
  ASSERT_TRUE(b.ok()) << b.error().text();
  const auto& steps = b->compiled.steps;
  const auto at = std::find_if(steps.begin(), steps.end(), [](const auto& s) { return !s.conversion; });
  ASSERT_NE(at, steps.end());
  const std::string word = "source=" + kernels::outside::hash_of(k);
  EXPECT_TRUE(at->chosen.starts_with("outside_squares@7 {" + word)) << at->chosen;
  EXPECT_TRUE(at->evidence.timed()) << at->evidence.untimed;
  EXPECT_GE(at->evidence.samples, 3);
  EXPECT_NE(plan::lock_text(b->compiled.lock).find(word), std::string::npos) << "the lock names the very source";
  EXPECT_TRUE(b->verdict.right());
  runtime::WeightSource weights;
  weights.tensors = b->compiled.weights;
  const auto table = exec::table();
  const auto engine = runtime::Engine::create(b->compiled.program, weights, engine_options(table, 1));
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto session = runtime::Session::create(*engine);
  for (const int64_t batch : {30, 1, 7}) {
    std::vector<float> x, w;
    for (int64_t i = 0; i < batch * 40; ++i) x.push_back(static_cast<float>(i));
    w.assign(x.size(), 2.5F);
    const auto out =
        (*session)->run(std::vector<Tensor>{Tensor::of_f32({batch, 40}, x), Tensor::of_f32({batch, 40}, w)});
    ASSERT_TRUE(out.ok()) << out.error().text();
    for (int64_t i = 0; i < batch * 40; ++i)
      ASSERT_EQ((*out)[0].f64(i), (static_cast<double>(i) - 2.5) * (static_cast<double>(i) - 2.5)) << i;
  }
}

TEST_F(OutsideKernel, AWorkerIsToldOfIt) {
  added("outside_worked");
  const auto b = built(0, std::string(tests::kBuildDir) + "/bin/failing_worker");  // a good one by that name
  ASSERT_TRUE(b.ok()) << b.error().text();
  EXPECT_TRUE(b->compiled.tuned.worker) << b->compiled.tuned.worker_trouble;
  EXPECT_EQ(b->compiled.tuned.worker_deaths, 0);
  const auto& steps = b->compiled.steps;
  const auto at = std::find_if(steps.begin(), steps.end(), [](const auto& s) { return !s.conversion; });
  ASSERT_NE(at, steps.end());
  EXPECT_TRUE(at->chosen.starts_with("outside_")) << at->chosen;
  EXPECT_TRUE(at->evidence.timed()) << at->evidence.untimed;
}

TEST_F(OutsideKernel, AWrongOneIsRefusedAndNothingIsLost) {
  added("outside_wrong", "WRONG", "1");
  const auto b = built();
  ASSERT_TRUE(b.ok()) << b.error().text();
  EXPECT_NE(refusals(*b, "outside_wrong").find("output 0 differs at"), std::string::npos)
      << refusals(*b, "outside_wrong");
  EXPECT_TRUE(b->verdict.right());
}

TEST_F(OutsideKernel, AWriteBehindTheResultIsRefused) {
  added("outside_past", "MORE", "1");
  const auto b = built();
  ASSERT_TRUE(b.ok()) << b.error().text();
  EXPECT_NE(refusals(*b, "outside_past").find("wrote past the end of its result"), std::string::npos)
      << refusals(*b, "outside_past");
}

TEST_F(OutsideKernel, OneThatDoesNotCompileIsRefusedWithTheLog) {
  added("outside_broken", "MORE", "broken");
  const auto b = built();
  ASSERT_TRUE(b.ok()) << b.error().text();
  for (const char* part : {"the source does not compile", "line 1: error: broken"})
    EXPECT_NE(refusals(*b, "outside_broken").find(part), std::string::npos)
        << part << " in " << refusals(*b, "outside_broken");
}

// The fake driver takes the name of a library for a text, and compiles nothing.
TEST_F(OutsideKernel, PtxGoesToTheDriverAsItIs) {
  const auto compiler = device::cuda::Compiler::open("");
  ASSERT_TRUE(compiler.ok()) << compiler.error().text();
  const std::string name = "outside_ptx";
  const auto code = (*compiler)->compile({name, "#define EACH 1\n" + source(name, "", ""), "sm_90"});
  ASSERT_TRUE(code.ok()) << code.error().text();
  added_text(name, "ptx", code->cubin + "\n.visible .entry peri_" + name + kParameters, "");
  const auto b = built();
  ASSERT_TRUE(b.ok()) << b.error().text();
  const tune::Evidence e = evidence_of(*b, name);
  EXPECT_TRUE(e.timed() && e.right()) << e.rejected << e.untimed;
  EXPECT_TRUE(b->verdict.right());
}

TEST_F(OutsideKernel, PtxThatTheDriverRefusesIsToldWithItsLog) {
  const std::string name = "outside_bad_ptx";
  added_text(name, "ptx", "broken ptx .entry peri_" + name + kParameters, "");
  const auto b = built();
  ASSERT_TRUE(b.ok()) << b.error().text();
  EXPECT_NE(refusals(*b, name).find("ptxas error: broken ptx"), std::string::npos) << refusals(*b, name);
}

// A graph without weights has the type of its inputs: a kernel that takes 16 bits is asked, no cast stands before it.
TEST_F(OutsideKernel, AGraphOf16BitsWithoutWeightsKeepsThem) {
  const std::string name = "outside_half";
  static const Folder kFiles;
  std::ofstream(kFiles.path / "half.ptx") << "broken ptx .entry peri_half(.param .u64 x, .param .u64 w, .param .u64 y)";
  const std::string manifest = (kFiles.path / "half.json").string();
  std::ofstream(manifest)
      << "{\"name\": \"" << name << "\", \"version\": 1, \"source\": {\"ptx\": \"half.ptx\"}, \"chips\": "
      << "[\"sm_80+\"], \"entry\": \"peri_half\", \"threads\": 32, \"grid\": [\"n\"], \"pattern\": \"graph { input "
      << "x: f16[n,c]; input w: f16[n,c]; d = sub(x, w); y = mul(d, d); output y }\", \"arguments\": [\"x\", \"w\", "
      << "\"y\"]}";
  const auto k = kernels::outside::add(manifest);
  ASSERT_TRUE(k.ok()) << k.error().text();
  std::string graph = kSquares;
  for (size_t at = graph.find("f32"); at != std::string::npos; at = graph.find("f32", at)) graph.replace(at, 3, "f16");
  const auto b = built(0, "", "cuda", graph);
  ASSERT_TRUE(b.ok()) << b.error().text();
  EXPECT_NE(refusals(*b, name).find("ptxas error: broken ptx"), std::string::npos) << refusals(*b, name);
}

// Thread 0 of a block computes a row; float16 as bits, which the host's compiler lacks.
constexpr const char* kSoftmax = R"(
static float wide(unsigned short h) {
  const int e = h >> 10 & 31, m = h & 1023;
  const float f = e == 31 ? m ? NAN : INFINITY : e ? ldexpf(1024 + m, e - 25) : ldexpf(m, -24);
  return h >> 15 ? -f : f;
}
static unsigned short narrow(float f) {  // of 0 to 1 or NaN
  int e;
  if (!(f >= 0)) return 0x7e00;
  if (f < 6.2e-5f) return (unsigned short)nearbyintf(ldexpf(f, 24));
  frexpf(f, &e);
  return (unsigned short)(((e + 14) << 10) + (int)nearbyintf(ldexpf(f, 11 - e)) - 1024);
}
extern "C" __global__ void peri_outside_soft(const unsigned short* x, unsigned short* y, int c) {
  if (threadIdx.x) return;
  x += (long long)blockIdx.x * c;
  y += (long long)blockIdx.x * c;
  float largest = -INFINITY, sum = 0;
  for (int i = 0; i < c; ++i) largest = fmaxf(largest, wide(x[i]));
  for (int i = 0; i < c; ++i) sum += expf(wide(x[i]) - largest);
  for (int i = 0; i < c; ++i) y[i] = narrow(expf(wide(x[i]) - largest) / sum);
}
)";

// The passes leave a softmax of 16 bits as float32 between casts: a pattern of the softmax alone takes the three nodes.
TEST_F(OutsideKernel, ASoftmaxOf16BitsIsChosen) {
  static const Folder kFiles;
  std::ofstream(kFiles.path / "soft.cu") << kSoftmax;
  const std::string manifest = (kFiles.path / "soft.json").string();
  std::ofstream(manifest)
      << "{\"name\": \"outside_soft\", \"version\": 1, \"source\": {\"cuda\": \"soft.cu\"}, \"chips\": [\"sm_80+\"], "
      << "\"entry\": \"peri_outside_soft\", \"threads\": 32, \"grid\": [\"n\"], \"arguments\": [\"x\", \"y\", \"i32 "
         "c\"], "
      << "\"pattern\": \"graph { input x: f16[n,c]; y = softmax(x); output y }\"}";
  const auto k = kernels::outside::add(manifest);
  ASSERT_TRUE(k.ok()) << k.error().text();
  const auto b = built(0, "", "cuda", "graph { input x: f16[batch,40]; y = softmax(x); output y }");
  ASSERT_TRUE(b.ok()) << b.error().text();
  ASSERT_EQ(b->compiled.steps.size(), 1U) << refusals(*b, "outside_soft");
  EXPECT_TRUE(b->compiled.steps[0].chosen.starts_with("outside_soft")) << b->compiled.steps[0].chosen;
  EXPECT_TRUE(b->verdict.right());
}

// An engine whose only step is a kernel from outside, as source and as PTX: each of the driver's calls fails in turn.
// It is told, the next run is right, and nothing is left behind.
TEST_F(OutsideKernel, AnyCallOfTheDriverThatFailsIsToldAndTheNextRunIsRight) {
  const std::string name = "outside_fails_ptx";
  const auto compiler = device::cuda::Compiler::open("");
  ASSERT_TRUE(compiler.ok()) << compiler.error().text();
  const auto code = (*compiler)->compile({name, "#define EACH 1\n" + source(name, "", ""), "sm_90"});
  ASSERT_TRUE(code.ok()) << code.error().text();
  const kernels::Kernel* const forms[] = {
      &added("outside_fails"),
      &added_text(name, "ptx", code->cubin + "\n.visible .entry peri_" + name + kParameters, "")};
  for (const kernels::Kernel* k : forms) {
    SCOPED_TRACE(k->name);
    auto b = built();
    ASSERT_TRUE(b.ok()) << b.error().text();
    for (plan::Step& s : b->compiled.program.steps) {
      auto payload = exec::read_payload(s.variants[0].payload);
      if (!payload.ok() || s.executor != "cuda") continue;
      s.variants[0].payload =
          exec::write_payload(k->name, k->version, "source=" + kernels::outside::hash_of(*k), payload->graph);
    }
    int failures = 0;
    for (long call = 1;; ++call) {
      SCOPED_TRACE(call);
      bool failed = false;
      Fakes::control<void()>("driver", "fake_reset")();
      Fakes::control<void(long, int)>("driver", "fake_fail")(call, 2);
      for (int round = 0; round < 2 + failed; ++round) {
        const auto out = squares(*b);
        if (!out.ok()) {
          ASSERT_FALSE(failed) << "a second failure: " << out.error().text();
          EXPECT_NE(out.error().kind, ErrorKind::kInternal) << out.error().text();
          failed = true;
          continue;
        }
        for (int64_t i = 0; i < 1200; ++i)
          ASSERT_EQ((*out)[0].f64(i), (static_cast<double>(i) - 2.5) * (static_cast<double>(i) - 2.5)) << i;
      }
      EXPECT_EQ(Fakes::control<long()>("driver", "fake_live")(), 0);
      const bool reached = Fakes::control<long()>("driver", "fake_calls")() >= call;
      Fakes::control<void()>("driver", "fake_reset")();
      if (!reached) break;
      failures += failed;
    }
    EXPECT_GT(failures, 20);
  }
}

// Before there is a run: nothing of it could be answered.
TEST_F(OutsideKernel, AnEngineThatLacksItsKernelIsNotMade) {
  const std::string word = "source=" + kernels::outside::hash_of(added("outside_lacked"));
  const auto b = built();
  ASSERT_TRUE(b.ok()) << b.error().text();
  const auto made_with = [&](const std::string& head) {
    plan::Program program = b->compiled.program;
    for (plan::Step& s : program.steps)
      for (plan::Variant& v : s.variants)
        if (s.executor == "cuda") v.payload = "kernel " + head + v.payload.substr(v.payload.find('\n'));
    runtime::WeightSource weights;
    weights.tensors = b->compiled.weights;
    const auto table = exec::table();
    const auto engine = runtime::Engine::create(std::move(program), weights, engine_options(table, 1));
    return engine.ok() ? "" : engine.error().text();
  };
  const auto& steps = b->compiled.steps;
  const auto at = std::find_if(steps.begin(), steps.end(), [](const auto& s) { return !s.conversion; });
  ASSERT_NE(at, steps.end());
  EXPECT_EQ(made_with(at->chosen), "");
  struct Case {
    std::string head;
    std::vector<std::string> says;
  };
  for (const Case& c :
       {Case{"outside_nobody@7 {" + word + "}", {"'outside_nobody' is from outside", "--kernel FILE", "PERI_KERNELS"}},
        {"cuda_nobody@7 {}", {"'cuda_nobody' is not in this binary", "build the engine again"}},
        {"outside_lacked@8 {" + word + "}",
         {"version 7 in its manifest", "outside_lacked.json", "expected 8", "--kernel FILE"}},
        {"outside_lacked@7 {source=0}", {"another manifest or source", "outside_lacked.json", "--kernel FILE"}},
        {"cuda_elementwise@999 {}", {"'cuda_elementwise' has version", "expected 999"}}}) {
    const std::string said = made_with(c.head);
    for (const std::string& part : c.says) EXPECT_NE(said.find(part), std::string::npos) << part << " in " << said;
  }
}

TEST_F(OutsideKernel, OfABuildForTheCpuIsANote) {
  added("outside_squares");
  const auto b = built(0, "", "cpu");
  ASSERT_TRUE(b.ok()) << b.error().text();
  const std::string want =
      "kernel 'outside_squares' was not tried: it is for backend 'cuda', and this build is for 'cpu'";
  EXPECT_EQ(std::count(b->compiled.notes.begin(), b->compiled.notes.end(), want), 1);
}

}  // namespace
}  // namespace peri::build
