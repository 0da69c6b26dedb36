// Kernels over a library of NVIDIA's, on fakes that compute: on every sample of every op and anchors with every
// epilogue that they take, what they ask of the library is what the region means, as the library chooses and by each
// choice that was resolved; at other sizes, for another version and for a choice that is no more, as it chooses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "device/cuda/cuda.hpp"
#include "kernels/cuda/code/launch.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tune/layouts.hpp"
#include "tune/resolved.hpp"
#include "tune/sample_regions.hpp"

namespace peri::tune {
namespace {
using device::tests::Fakes;
using kernels::cuda::LaunchArgument;
using kernels::cuda::LaunchInstance;
using kernels::cuda::LibraryCall;

const device::Target kGpu = {device::Kind::kCuda, "a GPU", {"sm_90"}, 132, {}, {"cublaslt 13.1", "cudnn 9.19"}};

// Memory as a device gives it; the fake's is the host's.
struct Memory {
  explicit Memory(size_t bytes) : all(bytes + 256) {}
  std::byte* at() { return all.data() + (256 - reinterpret_cast<uintptr_t>(all.data()) % 256); }
  std::vector<std::byte> all;
};

class CudaVendor : public testing::Test {
 protected:
  void SetUp() override {
    Fakes::control<void()>("driver", "fake_reset")();
    Fakes::control<void()>("cublaslt", "fake_lt_reset")();
    Fakes::control<void()>("cudnn", "fake_dnn_reset")();
    Fakes::control<void()>("cudnn", "fake_dnn_needs_bias")();
    auto made = device::cuda::make_cuda_device();
    ASSERT_TRUE(made.ok()) << made.error().text();
    device_ = *std::move(made);
  }

  static bool prepare(SampleProblem* p) {
    if (p->refused || p->expected) return !p->refused;
    auto arguments = make_arguments(p->region, 7);
    auto expected = arguments.ok() ? make_expected(p->region, *arguments, 1, 7) : Result<Expected>(arguments.error());
    auto given = expected.ok() ? Given::make(std::move(*arguments), p->constant) : Result<Given>(expected.error());
    p->refused = !given.ok();
    if (p->refused) return false;
    p->given = *std::move(given);
    p->expected = *std::move(expected);
    return true;
  }

  // The answer of an instance to the sample's arguments, held against what is expected.
  Result<double> answer(const kernels::Kernel& kernel, SampleProblem& p, const kernels::Offer& offer,
                        const std::string& config, bool choosing) {
    ir::Graph g = p.region.clone();
    for (size_t k = 0; k < g.inputs.size(); ++k) g.inputs[k]->type.layout = offer.inputs[k];
    for (size_t k = 0; k < g.outputs.size(); ++k) g.outputs[k]->type.layout = offer.outputs[k];
    std::vector<Tensor> constants(g.inputs.size());
    for (size_t k = 0; k < constants.size(); ++k)
      if (p.constant[k]) constants[k] = p.given->row_major()[k];
    kernels::Packed packed;
    PERI_ASSIGN(const auto made,
                kernel.instantiate({&g, p.constant}, config, {constants, &packed, &kGpu, nullptr, choosing}));
    const auto& plan = dynamic_cast<const LaunchInstance&>(*made);
    const std::vector<int64_t> dims = kernels::dims_of(*g.outputs[0]);
    PERI_ASSIGN(Tensor out, Tensor::zeros(g.outputs[0]->type.dtype, physical_dims(dims, offer.outputs[0])));
    for (const LibraryCall& call : plan.calls()) {
      PERI_ASSIGN(const auto work, call.make(*device_));
      std::vector<Memory> memories;
      std::vector<device::Argument> at;
      for (const LaunchArgument& a : call.arguments) {
        const bool result = a.from == LaunchArgument::From::kOutput;
        Tensor value = out;
        if (!result) {
          PERI_ASSIGN(value, p.given->in_layout(a.index, offer.inputs[a.index]));
        }
        Memory& m = memories.emplace_back(value.bytes().size());
        if (!result) std::memcpy(m.at(), value.data(), value.bytes().size());
        at.push_back({{reinterpret_cast<uint64_t>(m.at())}, value.bytes().size()});
      }
      Memory workspace(work->workspace_bytes());
      PERI_TRY(work->enqueue(at, {reinterpret_cast<uint64_t>(workspace.at())}, nullptr));
      for (size_t k = 0; k < at.size(); ++k)
        if (call.arguments[k].from == LaunchArgument::From::kOutput)
          std::memcpy(out.mutable_data(), memories[k].at(), out.bytes().size());
    }
    PERI_ASSIGN(const Tensor row_major, from_layout(out, offer.outputs[0], dims));
    return compare(*p.expected, {&row_major, 1});
  }

  // Every sample that the kernel takes, with the offer.
  void each(const kernels::Kernel& kernel, const std::function<void(SampleProblem&, const kernels::Offer&)>& f) {
    std::vector<SampleProblem> own = own_problems(kernel);
    each_of(common_problems(), kernel, f);
    each_of(own, kernel, f);
  }
  static void each_of(std::vector<SampleProblem>& all, const kernels::Kernel& kernel,
                      const std::function<void(SampleProblem&, const kernels::Offer&)>& f) {
    for (SampleProblem& p : all) {
      auto offers = kernel.offer({&p.region, p.constant}, kGpu);
      if (!offers.ok() || !prepare(&p)) continue;
      ASSERT_EQ(offers->size(), 1u);
      (*offers)[0].inputs.resize(p.region.inputs.size());
      (*offers)[0].outputs.resize(1);
      SCOPED_TRACE(std::string(kernel.name) + " on " + ir::print(p.region));
      f(p, offers->front());
    }
  }
  static const kernels::Kernel& vendor(const char* name) { return *kernels::find(name); }

  const Fakes fakes_{{"libcuda.so.1", "driver"}, {"libcublasLt.so.13", "cublaslt"}, {"libcudnn.so.9", "cudnn"}};
  std::unique_ptr<device::cuda::CudaDevice> device_;
};

TEST_F(CudaVendor, WhatIsAskedIsWhatTheRegionMeans) {
  for (const auto& [name, least] : {std::pair("cuda_blaslt", 20), {"cuda_dnn_conv", 20}, {"cuda_dnn_attention", 4}}) {
    int taken = 0, made = 0;
    each(vendor(name), [&](SampleProblem& p, const kernels::Offer& offer) {
      ++taken;
      EXPECT_EQ(offer.config, kernels::kHeuristic);
      const auto right = answer(vendor(name), p, offer, offer.config, false);
      EXPECT_TRUE(right.ok()) << right.error().text();
      const auto configs = vendor(name).resolve({&p.region, p.constant}, offer.config, kGpu, device_.get());
      ASSERT_TRUE(configs.ok()) << configs.error().text();
      for (const std::string& config : *configs) {
        EXPECT_TRUE(kernels::check_resolved(vendor(name), offer.config, config).ok()) << config;
        const auto chosen = answer(vendor(name), p, offer, config, true);
        made += chosen.ok();
        EXPECT_TRUE(chosen.ok() || chosen.error().kind == ErrorKind::kIo) << chosen.error().text();  // does not compile
      }
    });
    EXPECT_GE(taken, least) << name;
    EXPECT_GE(made, taken) << name;
  }
}

TEST_F(CudaVendor, WhereAChoiceDoesNotServeTheLibraryChooses) {
  for (const char* name : {"cuda_blaslt", "cuda_dnn_conv"}) {
    int taken = 0;
    each(vendor(name), [&](SampleProblem& p, const kernels::Offer& offer) {
      if (++taken > 3) return;
      const auto configs = vendor(name).resolve({&p.region, p.constant}, offer.config, kGpu, device_.get());
      ASSERT_TRUE(configs.ok());
      const std::string& config = configs->back();
      const auto with = [&](const std::string& key, const std::string& value) {
        const size_t at = config.find(key + "=") + key.size() + 1;
        return config.substr(0, at) + value + config.substr(std::min(config.find(' ', at), config.size()));
      };
      const std::string id = config.find("algo=") != config.npos ? "algo" : "engine";
      for (const std::string& other : {with("sizes", "1x1x1x1"), with("version", "1"), with(id, "69")}) {
        const auto right = answer(vendor(name), p, offer, other, false);
        EXPECT_TRUE(right.ok()) << other << ": " << right.error().text();
      }
      for (const std::string& other : {with("version", "1"), with(id, "69")})
        EXPECT_FALSE(answer(vendor(name), p, offer, other, true).ok()) << "what was not chosen is not timed: " << other;
      for (const std::string& wrong : {with(id, "x"), with("version", "-"), std::string("none"), config.substr(0, 12)})
        EXPECT_FALSE(answer(vendor(name), p, offer, wrong, false).ok()) << wrong;
    });
    EXPECT_GE(taken, 3) << name;
  }
}

// cuDNN compiles an attention for its sizes: at others the step is refused, so that its first run waits for no
// compilation, and one of our own takes it. Where the library chooses, it does at every size.
TEST_F(CudaVendor, AnAttentionIsCompiledForItsSizesOnly) {
  const kernels::Kernel& kernel = vendor("cuda_dnn_attention");
  int taken = 0;
  each(kernel, [&](SampleProblem& p, const kernels::Offer& offer) {
    ++taken;
    const auto configs = kernel.resolve({&p.region, p.constant}, offer.config, kGpu, device_.get());
    ASSERT_TRUE(configs.ok()) << configs.error().text();
    ASSERT_EQ(configs->size(), 2u);
    const std::string& config = configs->back();
    EXPECT_TRUE(answer(kernel, p, offer, config, false).ok());
    const auto with = [&](const std::string& key, const std::string& value) {
      const size_t at = config.find(key + "=") + key.size() + 1;
      return config.substr(0, at) + value + config.substr(std::min(config.find(' ', at), config.size()));
    };
    for (const bool choosing : {false, true}) {
      const auto other = answer(kernel, p, offer, with("sizes", "1x1x1x1x1x8x8"), choosing);
      ASSERT_FALSE(other.ok());
      EXPECT_EQ(other.error().kind, ErrorKind::kRefused) << other.error().text();
    }
    for (const auto& [key, value] : {std::pair("version", "1"), {"engine", "69"}}) {
      const auto right = answer(kernel, p, offer, with(key, value), false);
      EXPECT_TRUE(right.ok()) << right.error().text();
      EXPECT_FALSE(answer(kernel, p, offer, with(key, value), true).ok()) << "what was not chosen is not timed";
    }
    for (const std::string& wrong : {with("engine", "x"), with("knobs", "1"), std::string("none")})
      EXPECT_EQ(answer(kernel, p, offer, wrong, false).error().kind, ErrorKind::kInvalid) << wrong;
  });
  EXPECT_GE(taken, 4);
}

TEST_F(CudaVendor, AttentionsThatCudnnMayNotTakeAreRefused) {
  const auto refused = [](const char* inputs, const char* call) {
    auto g = ir::parse_graph(std::string("graph { input q: f16[1,2,6,64]; input k: f16[1,2,6,64]; input v: "
                                         "f16[1,2,6,64]; ") +
                             inputs + " y = attention(" + call + "; output y }");
    if (!g.ok() || !ops::infer_graph(*g).ok()) return std::string("no graph");
    const auto offers = vendor("cuda_dnn_attention").offer({&*g, std::vector<bool>(g->inputs.size())}, kGpu);
    return offers.ok() ? std::string() : offers.error().text();
  };
  EXPECT_EQ(refused("", "q, k, v)"), "");
  EXPECT_EQ(refused("input m: f16[1,1,1,6];", "q, k, v, m)"), "");
  EXPECT_EQ(refused("input q1: f16[1,2,1,64];", "q1, k, v) {causal=1, zero_hidden_rows=1}"), "") << "it sees all keys";
  EXPECT_NE(refused("input m: bool[1,1,1,6];", "q, k, v, m)").find("masks that are added"), std::string::npos);
  EXPECT_NE(refused("input m: f16[1,1,1,6];", "q, k, v, m) {zero_hidden_rows=1}").find("hides"), std::string::npos);
  EXPECT_NE(refused("input m: f16[1,1,6,1];", "q, k, v, m)").find("a mask of other sizes"), std::string::npos);
  EXPECT_NE(refused("", "q, k, v) {softcap=2.0}").find("no soft cap"), std::string::npos);
  EXPECT_EQ(refused("", "q, k, v) {causal=1, past=dims[0]}"), "");
  EXPECT_NE(refused("", "q, k, v) {causal=1, past=dims[2]}").find("as many keys as queries"), std::string::npos);
  EXPECT_NE(refused("input k2: f16[1,2,9,64];", "q, k2, k2) {causal=1}").find("as many keys as queries"),
            std::string::npos);
}

// What a library takes at one size it may refuse at another, and then one of our own runs in its place.
TEST_F(CudaVendor, WhatALibraryTakesAKernelOfOurOwnTakesInItsLayouts) {
  for (const char* name : {"cuda_blaslt", "cuda_dnn_conv", "cuda_dnn_attention"})
    each(vendor(name), [&](SampleProblem& p, const kernels::Offer& offer) {
      bool taken = false;
      for (const kernels::Entry* e : kernels::entries()) {
        if (e->kernel.executor != "cuda" || !e->kernel.library.empty()) continue;
        const auto offers = e->kernel.offer({&p.region, p.constant}, kGpu);
        for (size_t k = 0; offers.ok() && k < offers->size(); ++k) {
          kernels::Offer o = (*offers)[k];
          o.inputs.resize(offer.inputs.size());
          o.outputs.resize(offer.outputs.size());
          taken = taken || (o.inputs == offer.inputs && o.outputs == offer.outputs);
        }
      }
      EXPECT_TRUE(taken || p.region.outputs[0]->type.dtype == DType::kF32 || name[5] == 'b');
    });
}

// Acceptance is of one size. Whatever fits at the tuned one by chance, or rounds once there, is refused where it does
// not when the step is made: by kRefused, which tells the executor to have another take it.
TEST_F(CudaVendor, AnotherSizeIsRefusedAndNotComputedWrong) {
  const auto made = [&](const char* text, std::vector<bool> constant) {
    auto g = ir::parse_graph(text);
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
    kernels::Packed packed;
    const std::vector<Tensor> none(g->inputs.size());
    const auto instance =
        vendor("cuda_blaslt").instantiate({&*g, constant}, kernels::kHeuristic, {none, &packed, &kGpu, nullptr});
    EXPECT_TRUE(instance.ok() || instance.error().kind == ErrorKind::kRefused) << instance.error().text();
    const auto own = kernels::find("cuda_gemm")->offer({&*g, constant}, kGpu);
    EXPECT_TRUE(own.ok()) << (own.ok() ? "" : own.error().text());
    return instance.ok();
  };
  const std::string product = "y = matmul(x, w); z = add(y, r); output z }";
  // r has the result's size for one row and is repeated for more; a bias made at run time.
  EXPECT_TRUE(made(("graph { input x: f16[1,64]; input w: f16[64,32]; input r: f16[1,32]; " + product).c_str(),
                   {false, true, false}));
  EXPECT_FALSE(made(("graph { input x: f16[5,64]; input w: f16[64,32]; input r: f16[1,32]; " + product).c_str(),
                    {false, true, false}));
  // Rows of 16 bytes, and others.
  const std::string bias = "input w: f16[64,32]; input b: f16[32]; y = matmul(x, w); z = add(y, b); output z }";
  EXPECT_TRUE(made(("graph { input x: f16[5,64]; " + bias).c_str(), {false, true, true}));
  EXPECT_FALSE(
      made("graph { input x: f16[5,63]; input w: f16[63,32]; input b: f16[32]; y = matmul(x, w); z = add(y, "
           "b); output z }",
           {false, true, true}));
  EXPECT_FALSE(made("graph { input x: f16[0,64]; input w: f16[64,32]; y = matmul(x, w); output y }", {false, true}));
}

TEST_F(CudaVendor, WithoutTheLibraryThereIsNoOffer) {
  const device::Target bare = {device::Kind::kCuda, "a GPU", {"sm_90"}, 132, {}, {"cublasltx 13.1"}};
  for (const char* name : {"cuda_blaslt", "cuda_dnn_conv", "cuda_dnn_attention"})
    each(vendor(name), [&](SampleProblem& p, const kernels::Offer&) {
      EXPECT_TRUE(offers_of(vendor(name), {&p.region, p.constant}, kGpu).ok());
      const auto offers = offers_of(vendor(name), {&p.region, p.constant}, bare);
      EXPECT_FALSE(offers.ok());
      EXPECT_EQ(offers.error().kind, ErrorKind::kRefused);
    });
}

}  // namespace
}  // namespace peri::tune
