// Tunables: every value of every one gives the bits of the derived plan, in another number of tasks for some value, and
// keeps what the offer says; other values are refused.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/rng.hpp"
#include "device/target.hpp"
#include "kernels/entry.hpp"
#include "ops/entry.hpp"

namespace peri::kernels {
namespace {

struct Case {
  const char *kernel, *text;
};
constexpr Case kCases[] = {
    {"gemm_f32", "graph { input x: f32[150,96]; input w: f32[96,200]; p = matmul(x, w); y = relu(p); output y }"},
    {"conv_f32",
     "graph { input x: f32[1,32,20,20]; input w: f32[96,32,3,3]; y = conv(x, w) {pads=[1,1,1,1]}; output y }"},
    {"conv_f32", "graph { input x: f32[1,96,20,20]; input w: f32[96,1,3,3]; y = conv(x, w) {group=96}; output y }"},
    {"conv_f32", "graph { input x: f32[1,3,40,40]; input w: f32[32,3,3,3]; y = conv(x, w); output y }"},
    {"conv_winograd_f32",
     "graph { input x: f32[1,32,20,20]; input w: f32[160,32,3,3]; y = conv(x, w) {pads=[1,1,1,1]}; output y }"},
    {"attention_f32",
     "graph { input q: f32[1,2,70,16]; input k: f32[1,2,50,16]; input v: f32[1,2,50,16]; "
     "y = attention(q, k, v); output y }"},
    {"conv_open_f32",
     "graph { input x: f32[1,9,20,21]; input k: f32[150,9,3,3]; y = conv(x, k) {pads=[1,1,1,1]}; output y }"},
    {"gemm_siblings_f32",
     "graph { input x: f32[150,96]; input w: f32[96,200]; input w2: f32[96,120]; p = matmul(x, w); y = relu(p); "
     "z = matmul(x, w2); output y; output z }"},
    {"norm_f32", "graph { input x: f32[70,64]; input w: f32[64]; y = layer_normalization(x, w); output y }"},
    {"softmax_f32", "graph { input x: f32[70,64]; y = softmax(x); output y }"},
};

struct Outcome {
  int64_t tasks = 0;
  std::vector<float> out;
};

// The region as the first offer wants it, in a configuration.
struct Bench {
  ir::Graph graph;
  std::vector<bool> constant;
  Offer offer;
  const Kernel* kernel = nullptr;
  std::vector<Tensor> in;
  Target target = device::this_cpu();

  explicit Bench(const Case& c) : kernel(find(c.kernel)) {
    auto g = ir::parse_graph(c.text);
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << c.text;
    graph = std::move(*g);
    Rng rng(5);
    for (const ir::Value* v : graph.inputs) {
      constant.push_back(v->name.starts_with("w") && std::string_view(c.kernel) != "norm_f32");
      Tensor t = *Tensor::zeros(DType::kF32, dims_of(*v));
      for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, rng.uniform() - 0.5);
      in.push_back(std::move(t));
    }
    auto offers = kernel->offer({&graph, constant}, target);
    EXPECT_TRUE(offers.ok()) << offers.error().text();
    offer = (*offers)[0];
    for (size_t k = 0; k < graph.inputs.size(); ++k) graph.inputs[k]->type.layout = offer.inputs[k];
    for (size_t k = 0; k < graph.outputs.size(); ++k) graph.outputs[k]->type.layout = offer.outputs[k];
  }

  Result<std::unique_ptr<Instance>> make(std::string_view config, Packed* packed) const {
    std::vector<Tensor> constants(in.size());
    for (size_t k = 0; k < in.size(); ++k)
      if (constant[k]) constants[k] = in[k];
    return kernel->instantiate({&graph, constant}, config, {constants, packed, &target, nullptr, false});
  }

  Outcome run(std::string_view config) const {
    Packed packed;
    auto made = make(config, &packed);
    EXPECT_TRUE(made.ok()) << kernel->name << " " << config << ": " << made.error().text();
    if (!made.ok()) return {};
    Outcome r;
    std::vector<size_t> begins;  // of the results, one behind the other
    for (const ir::Value* v : graph.outputs) {
      begins.push_back(r.out.size());
      r.out.resize(r.out.size() + static_cast<size_t>(product(*v->type.shape).value()));
    }
    std::vector<const void*> in_p;
    for (size_t k = 0; k < in.size(); ++k) in_p.push_back(constant[k] ? nullptr : in[k].data());
    std::vector<void*> out_p;
    for (const size_t at : begins) out_p.push_back(r.out.data() + at);
    std::vector<std::byte> memory((*made)->scratch_bytes() + (*made)->workspace_bytes() + 256);
    std::byte* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    std::byte* scratch = aligned + ((*made)->workspace_bytes() + 63) / 64 * 64;
    for (int phase = 0; phase < (*made)->phases(); ++phase)
      for (int64_t task = 0; task < (*made)->tasks(phase); ++task, ++r.tasks)
        (*made)->run_task(phase, task, {in_p, out_p, aligned, scratch});
    return r;
  }
};

TEST(Tunables, ChangeHowWorkIsCutAndNoBit) {
  std::set<std::string> turned, declared;
  for (const Entry* e : entries())
    for (const Tunable& t : e->kernel.tunables) {
      EXPECT_FALSE(t.values.empty()) << e->kernel.name;
      if (e->kernel.executor != "cpu") continue;  // tests/tune/cuda_mma_test.cpp turns those of a GPU
      declared.insert(std::string(e->kernel.name) + " " + std::string(t.name));
    }
  for (const Case& c : kCases) {
    const Bench bench(c);
    const Outcome derived = bench.run(bench.offer.config);
    const std::vector<std::string> configs = settings_of(*bench.kernel, bench.offer.config, 64);
    EXPECT_FALSE(configs.empty()) << c.kernel;
    for (const std::string& config : configs) {
      EXPECT_EQ(derived_config(*bench.kernel, config), bench.offer.config);
      const Outcome set = bench.run(config);
      ASSERT_EQ(set.out.size(), derived.out.size());
      EXPECT_EQ(std::memcmp(set.out.data(), derived.out.data(), set.out.size() * sizeof(float)), 0)
          << c.kernel << " " << config;
      const std::string word = config.substr(config.rfind(' ') + 1);
      if (set.tasks != derived.tasks) turned.insert(std::string(c.kernel) + " " + word.substr(0, word.find('=')));
    }
  }
  EXPECT_EQ(turned, declared) << "each cuts work in another way somewhere";
}

TEST(Tunables, OtherValuesAreRefused) {
  for (const Case& c : kCases) {
    const Bench bench(c);
    for (const Tunable& t : bench.kernel->tunables)
      for (const char* value : {"3", "0", "-1", "x", "99999999999999999999"}) {
        Packed packed;
        const std::string config =
            bench.offer.config + (bench.offer.config.empty() ? "" : " ") + std::string(t.name) + "=" + value;
        EXPECT_FALSE(bench.make(config, &packed).ok()) << c.kernel << " " << config;
      }
  }
}

TEST(Tunables, SettingsAreBoundedAndTakeTheFirstValueOfEachFirst) {
  const Kernel kernel{.name = "k", .tunables = {{"a", "", {8, 4}}, {"b", "", {2}}}};
  using Configs = std::vector<std::string>;
  EXPECT_EQ(settings_of(kernel, "x=1", 2), (Configs{"x=1 a=8", "x=1 b=2"}));
  EXPECT_EQ(settings_of(kernel, "x=1", 9), (Configs{"x=1 a=8", "x=1 b=2", "x=1 a=4"}));
  EXPECT_EQ(settings_of(kernel, "a=8", 9), (Configs{"a=8 b=2"})) << "one that is set stays";
  EXPECT_EQ(settings_of(kernel, "", 0), Configs());
  EXPECT_EQ(derived_config(kernel, "a=8 x=1 b=2"), "x=1");
}

}  // namespace
}  // namespace peri::kernels
