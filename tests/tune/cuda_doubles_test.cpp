// Products and convolutions of float32 that add in float64 on tensor cores: in every tile, with parts of the depth
// joined by a launch and by a cluster, as the host runs their text, a result is the float32 next to its sum. Only GPUs
// whose tensor cores are fast at float64 are offered them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "kernels/cuda/code/launch.hpp"
#include "ops/entry.hpp"
#include "tests/tune/host_gpu.hpp"
#include "tune/arguments.hpp"
#include "tune/expected.hpp"

namespace peri::tune {
namespace {
namespace fs = std::filesystem;
using kernels::cuda::KernelLaunch;
using kernels::cuda::LaunchArgument;
using kernels::cuda::LaunchInstance;

device::Target gpu_of(const char* chip) { return {device::Kind::kCuda, "a GPU", {chip}, 132, {}, {}}; }

struct Text {
  const char* kernel;
  const char* text;
  std::vector<bool> constant;
};
const Text kTexts[] = {
    {"cuda_gemm", "graph { input x: f32[37,200]; input w: f32[200,72]; y = matmul(x, w); output y }", {false, true}},
    {"cuda_gemm",
     "graph { input x: f32[19,205]; input w: f32[33,205]; y = gemm(x, w) {transB=1}; output y }",
     {false, true}},
    {"cuda_gemm",
     "graph { input x: f32[90,44]; input w: f32[90,60]; y = gemm(x, w) {transA=1}; output y }",
     {false, true}},
    {"cuda_gemm",
     "graph { input x: f32[2,3,20,24]; input w: f32[3,24,36]; y = matmul(x, w); output y }",
     {false, false}},
    {"cuda_conv",
     "graph { input x: f32[2,32,9,7]; input w: f32[20,16,3,3]; y = conv(x, w) {pads=[1,2,1,2], strides=[2,1], group=2, "
     "dilations=[2,1]}; output y }",
     {false, true}},
    {"cuda_conv", "graph { input x: f32[2,24,6,8]; input w: f32[20,24,1,1]; y = conv(x, w); output y }", {false, true}},
    {"cuda_conv",
     "graph { input x: f32[1,3,15,14]; input w: f32[24,3,5,5]; y = conv(x, w) {pads=[2,2,2,2]}; output y }",
     {false, true}},
    {"cuda_conv_transpose_product",
     "graph { input x: f32[2,24,5,6]; input w: f32[24,10,2,2]; y = conv_transpose(x, w) {strides=[2,2]}; output y }",
     {false, true}},
};

struct Case {
  std::string name;
  ir::Graph graph;
  std::vector<Tensor> arguments;
  std::unique_ptr<kernels::Instance> instance;
  const LaunchInstance& launched() const { return dynamic_cast<const LaunchInstance&>(*instance); }
};

// Of each text every tile once, with another split and way of joining at each.
void add_cases(std::vector<Case>* out) {
  const device::Target gpu = gpu_of("sm_90");
  for (const Text& t : kTexts) {
    auto g = ir::parse_graph(t.text);
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << t.text;
    const kernels::Kernel* const kernel = kernels::find(t.kernel);
    auto offers = kernel->offer({&*g, t.constant}, gpu);
    ASSERT_TRUE(offers.ok()) << offers.error().text();
    std::sort(offers->begin(), offers->end(), [](const auto& a, const auto& b) { return a.config < b.config; });
    std::string tile;
    size_t turn = 0, seen = 0;
    for (const kernels::Offer& o : *offers) {
      if (o.config.find(" doubles=") == std::string::npos) continue;
      const std::string own =
          o.config.substr(0, o.config.find(" split")) + o.config.substr(o.config.find(" doubles"), 10);
      if (own != tile) {
        tile = own;
        seen = 0;
        ++turn;
      }
      if (seen++ != turn * 3 % 7) continue;  // of splits 1, 2, 4, 8 and the three clusters
      auto arguments = make_arguments(*g, turn);
      ASSERT_TRUE(arguments.ok());
      std::vector<Tensor> constants(arguments->size());
      for (size_t k = 0; k < constants.size(); ++k)
        if (t.constant[k]) constants[k] = (*arguments)[k];
      kernels::Packed packed;
      auto made = kernel->instantiate({&*g, t.constant}, o.config, {constants, &packed, &gpu, nullptr});
      ASSERT_TRUE(made.ok()) << o.config << made.error().text();
      out->push_back({std::string(t.text) + " {" + o.config + "}", g->clone(), *arguments, std::move(*made)});
    }
  }
}

std::vector<float> run(const Case& c, const HostGpu& gpu, size_t elements) {
  std::vector<float> result(elements), workspace(c.instance->workspace_bytes() / sizeof(float));
  std::vector<Tensor> packed;
  for (const kernels::cuda::PackedWeight& w : c.launched().packed()) packed.push_back(*w.made(c.arguments));
  for (const KernelLaunch& l : c.launched().launches()) {
    std::vector<void*> addresses;
    for (const LaunchArgument& a : l.arguments) {
      const auto bytes = [](const Tensor& t) { return static_cast<void*>(const_cast<std::byte*>(t.bytes().data())); };
      addresses.push_back(a.from == LaunchArgument::From::kInput    ? bytes(c.arguments[a.index])
                          : a.from == LaunchArgument::From::kPacked ? bytes(packed[a.index])
                          : a.from == LaunchArgument::From::kOutput ? static_cast<void*>(result.data())
                                                                    : workspace.data());
    }
    gpu.run(l, addresses);
  }
  return result;
}

TEST(CudaDoubles, ResultsAreTheFloat32NextToTheSum) {
  std::vector<Case> cases;
  add_cases(&cases);
  ASSERT_GE(cases.size(), 8 * 10u);
  HostGpu gpu;
  for (const Case& c : cases)
    for (const KernelLaunch& l : c.launched().launches()) gpu.add(l.text, l.entry);
  const fs::path folder = fs::temp_directory_path() / ("peri_doubles_" + std::to_string(getpid()));
  fs::create_directory(folder);
  const Status compiled = gpu.compile(folder);
  fs::remove_all(folder);
  ASSERT_TRUE(compiled.ok()) << compiled.error().text();
  bool clusters = false, launches = false;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    clusters = clusters || c.launched().launches()[0].cluster > 1;
    launches = launches || c.launched().launches().size() > 1;
    const auto expected = make_expected(c.graph, c.arguments, 1, 7);
    ASSERT_TRUE(expected.ok() && expected->positions.empty());
    const std::vector<double>& want = expected->out[0].f;
    const std::vector<float> got = run(c, gpu, want.size());
    for (size_t k = 0; k < want.size(); ++k) {
      const auto nearest = static_cast<float>(want[k]);
      const double spacing = std::nextafter(std::fabs(nearest), INFINITY) - std::fabs(nearest);
      // The sum itself is off by some roundings of float64.
      ASSERT_LE(std::fabs(got[k] - want[k]), 0.5001 * spacing) << "at " << k << ": " << want[k];
    }
  }
  EXPECT_TRUE(clusters && launches);
}

TEST(CudaDoubles, AreOfferedWhereTheyAreFast) {
  for (const Text& t : kTexts) {
    auto g = ir::parse_graph(t.text);
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    for (const char* chip : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}) {
      const auto offers = kernels::find(t.kernel)->offer({&*g, t.constant}, gpu_of(chip));
      ASSERT_TRUE(offers.ok()) << offers.error().text();
      size_t doubles = 0, clusters = 0;
      for (const kernels::Offer& o : *offers) {
        doubles += o.config.find(" doubles=") != std::string::npos;
        clusters += o.config.find(" cluster=") != std::string::npos;
      }
      EXPECT_EQ(doubles > 0, chip == std::string_view("sm_80") || chip == std::string_view("sm_90")) << chip;
      EXPECT_EQ(clusters > 0, chip == std::string_view("sm_90")) << chip;
    }
  }
}

TEST(CudaDoubles, OtherConfigurationsAreRefused) {
  auto g = ir::parse_graph(kTexts[0].text);
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const device::Target gpu = gpu_of("sm_90");
  for (const char* config :
       {"tm=64 tn=64 split=3 doubles=8", "tm=64 tn=64 split=1 doubles=4", "tm=64 tn=64 split=1 doubles=8 cluster=1",
        "tm=64 tn=64 split=2 cluster=1", "tm=64 tn=48 split=1 doubles=8"}) {
    kernels::Packed packed;
    const auto made =
        kernels::find("cuda_gemm")->instantiate({&*g, kTexts[0].constant}, config, {{}, &packed, &gpu, nullptr});
    EXPECT_FALSE(made.ok()) << config;
  }
}

}  // namespace
}  // namespace peri::tune
