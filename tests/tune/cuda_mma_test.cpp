// Kernels on tensor cores, run by the host: products and convolutions of 16 bits at random sizes, in every layout that
// is offered, with random tiles, parts and settings, are right and write nothing beside their results.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>

#include "base/rng.hpp"
#include "device/cuda/compiler.hpp"
#include "exec/region/layouts.hpp"
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

const device::Target kGpu = {device::Kind::kCuda, "a GPU", {"sm_90"}, 132, {}, {}};
constexpr size_t kGuard = 256;
constexpr std::byte kPoison{0xcb};

struct Case {
  std::string name;
  ir::Graph plain, region;  // without and with the offer's layouts
  std::vector<Tensor> arguments;
  std::unique_ptr<kernels::Instance> instance;
  std::vector<Tensor> packed() const {
    std::vector<Tensor> out;
    for (const kernels::cuda::PackedWeight& w : dynamic_cast<const LaunchInstance&>(*instance).packed())
      out.push_back(*w.made(arguments));
    return out;
  }
  const std::vector<KernelLaunch>& launches() const {
    return dynamic_cast<const LaunchInstance&>(*instance).launches();
  }
};

struct Text {
  const char* kernel;
  std::string text;
  std::vector<bool> constant;
};

// A number of [low, high].
int64_t number(Rng* rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng->next() % static_cast<uint64_t>(high - low + 1));
}
long long size(Rng* rng, int64_t low, int64_t high) {
  // Half of them fill 16-byte chunks.
  const int64_t n = number(rng, low, high);
  return rng->next() % 2 ? std::max<int64_t>(8, n / 8 * 8) : n;
}

Text random_gemm(Rng* rng, const char* t) {
  const long long m = size(rng, 1, 90), n = size(rng, 1, 90), k = size(rng, 1, 200);
  switch (rng->next() % 4) {
    case 0:
      return {
          "cuda_gemm_mma",
          format("graph { input x: %s[%lld,%lld]; input w: %s[%lld,%lld]; input b: %s[%lld]; input r: %s[%lld,%lld]; "
                 "s = matmul(x, w); u = add(s, b); g = gelu(u); y = add(g, r); output y }",
                 t, m, k, t, k, n, t, n, t, m, n),
          {false, true, true, false}};
    case 1:
      return {"cuda_gemm_mma",
              format("graph { input x: %s[%lld,%lld]; input w: %s[%lld,%lld]; input b: %s[%lld]; "
                     "y = gemm(x, w, b) {transB=1, alpha=0.5}; output y }",
                     t, m, k, t, n, k, t, n),
              {false, true, true}};
    case 2:
      return {"cuda_gemm_mma",
              format("graph { input x: %s[%lld,%lld]; input w: %s[%lld,%lld]; y = gemm(x, w) {transA=1}; output y }", t,
                     k, m, t, k, n),
              {false, false}};
    default:
      return {"cuda_gemm_mma",
              format("graph { input x: %s[2,3,%lld,%lld]; input w: %s[3,%lld,%lld]; y = matmul(x, w); output y }", t,
                     m / 3 + 1, k, t, k, n),
              {false, false}};
  }
}

Text random_conv(Rng* rng, const char* t) {
  const long long groups = rng->next() % 4 == 0 ? 2 : 1, c = groups * size(rng, 1, 40), o = groups * size(rng, 8, 50),
                  kernel = number(rng, 1, 3), stride = number(rng, 1, 2), pad = number(rng, 0, kernel - 1),
                  dilation = number(rng, 1, 2), h = number(rng, 7, 12), w = number(rng, 7, 12);
  const std::string attrs =
      format("{pads=[%lld,%lld,%lld,%lld], strides=[%lld,%lld], dilations=[%lld,%lld], group=%lld}", pad, pad, pad, pad,
             stride, stride, dilation, dilation, groups);
  const std::string in =
      format("graph { input x: %s[2,%lld,%lld,%lld]; input w: %s[%lld,%lld,%lld,%lld]; input b: %s[%lld]; ", t, c, h, w,
             t, o, c / groups, kernel, kernel, t, o);
  const auto extent = [&](long long v) { return (v + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1; };
  if (rng->next() % 2)
    return {"cuda_conv_mma",
            in + format("input r: %s[2,%lld,%lld,%lld]; s = conv(x, w, b) ", t, o, extent(h), extent(w)) + attrs +
                "; u = add(s, r); y = relu(u); output y }",
            {false, true, true, false}};
  return {"cuda_conv_mma", in + "s = conv(x, w, b) " + attrs + "; y = hard_swish(s); output y }", {false, true, true}};
}

// Of few channels, read in pairs of pixels too.
Text random_narrow_conv(Rng* rng, const char* t) {
  const long long c = number(rng, 1, 4), o = size(rng, 8, 40), kh = number(rng, 1, 5), kw = number(rng, 1, 7),
                  pad_h = number(rng, 0, kh - 1), pad_w = number(rng, 0, kw - 1), stride = 2 * number(rng, 1, 2),
                  h = number(rng, 7, 12), w = 2 * number(rng, 4, 8);
  return {"cuda_conv_mma",
          format("graph { input x: %s[2,%lld,%lld,%lld]; input w: %s[%lld,%lld,%lld,%lld]; input b: %s[%lld]; "
                 "s = conv(x, w, b) {pads=[%lld,%lld,%lld,%lld], strides=[2,%lld]}; y = relu(s); output y }",
                 t, c, h, w, t, o, c, kh, kw, t, o, pad_h, pad_w, pad_h, pad_w, stride),
          {false, true, true}};
}

// Of an image times factors, for each image or for all, in either order.
Text random_gated_conv(Rng* rng, const char* t) {
  const long long c = 8 * number(rng, 1, 20), o = 8 * number(rng, 1, 8), k = number(rng, 1, 3), p = k / 2,
                  h = number(rng, 5, 11), n = number(rng, 1, 3), of = h % 3 ? n : 1;
  return {"cuda_conv_joined_mma",
          format("graph { input x: %s[%lld,%lld,%lld,7]; input g: %s[%lld,%lld,1,1]; input w: %s[%lld,%lld,%lld,%lld]; "
                 "m = mul(%s); s = conv(m, w) {pads=[%lld,%lld,1,1], strides=[2,1]}; output s }",
                 t, n, c, h, t, of, c, t, o, c, k, k, h % 2 ? "x, g" : "g, x", p, p),
          {false, false, true}};
}

Text random_conv_transpose(Rng* rng, const char* t) {
  const long long c = 8 * number(rng, 1, 9), o = 8 * number(rng, 1, 6), kh = number(rng, 1, 3), kw = number(rng, 1, 3),
                  h = number(rng, 3, 9), w = number(rng, 3, 9);
  return {"cuda_conv_transpose_mma",
          format("graph { input x: %s[2,%lld,%lld,%lld]; input w: %s[%lld,%lld,%lld,%lld]; input b: %s[%lld]; "
                 "s = conv_transpose(x, w, b) {strides=[%lld,%lld]}; y = relu(s); output y }",
                 t, c, h, w, t, c, o, kh, kw, t, o, kh, kw),
          {false, true, true}};
}

Text random_depthwise(Rng* rng, const char* t) {
  const long long c = 2 * number(rng, 1, 45), kernel = 2 * number(rng, 0, 2) + 1, stride = number(rng, 1, 2),
                  pad = number(rng, 0, kernel / 2), dilation = number(rng, 1, 2), h = number(rng, 9, 13),
                  w = number(rng, 9, 13);
  return {
      "cuda_depthwise",
      format("graph { input x: %s[2,%lld,%lld,%lld]; input w: %s[%lld,1,%lld,%lld]; input b: %s[%lld]; "
             "s = conv(x, w, b) {pads=[%lld,%lld,%lld,%lld], strides=[%lld,%lld], dilations=[%lld,%lld], group=%lld}; "
             "y = hard_swish(s); output y }",
             t, c, h, w, t, c, kernel, kernel, t, c, pad, pad, pad, pad, stride, stride, dilation, dilation, c),
      {false, true, true}};
}

Text random_attention(Rng* rng, const char* t) {
  const long long depths[] = {8, 16, 24, 40, 64, 72, 128};
  const long long d = depths[rng->next() % 7], v = depths[rng->next() % 5], queries = number(rng, 1, 70),
                  keys = number(rng, 1, 140), shared = number(rng, 1, 2), heads = number(rng, 1, 2);
  const bool bshd = rng->next() % 2;
  const auto port = [&](const char* name, long long h, long long s, long long depth) {
    return format("input %s: %s[2,%lld,%lld,%lld]; ", name, t, bshd ? s : h, bshd ? h : s, depth);
  };
  std::string text =
      "graph { " + port("q", heads * shared, queries, d) + port("k", heads, keys, d) + port("v", heads, keys, v);
  Text out{"cuda_attention_mma", "", {false, false, false}};
  const char* mask = "";
  if (const uint64_t kind = rng->next() % 4; kind > 0) {
    mask = ", m";
    text += kind == 1   ? format("input m: %s[2,1,1,%lld]; ", t, keys)
            : kind == 2 ? format("input m: %s[%lld,%lld]; ", t, queries, keys)
                        : format("input m: bool[2,1,%lld,%lld]; ", queries, keys);
    out.constant.push_back(false);
  }
  text += format("y = attention(q, k, v%s) {causal=%d, zero_hidden_rows=1", mask, static_cast<int>(rng->next() % 2));
  if (rng->next() % 2) text += ", past=dims[7], softcap=0.5";
  for (const char* p : {"q", "k", "v", "y"})
    if (bshd) text += format(", %s_layout=\"bshd\"", p);
  out.text = text + "}; output y }";
  return out;
}

// One case each for some of the offers, and for one with settings.
void add_cases(const Text& t, Rng* rng, std::vector<Case>* out) {
  auto g = ir::parse_graph(t.text);
  ASSERT_TRUE(g.ok()) << g.error().text() << t.text;
  ASSERT_TRUE(ops::infer_graph(*g).ok()) << t.text;
  const kernels::Kernel* const kernel = kernels::find(t.kernel);
  const auto offers = kernel->offer({&*g, t.constant}, kGpu);
  ASSERT_TRUE(offers.ok()) << offers.error().text() << t.text;
  auto arguments = make_arguments(*g, rng->next());
  ASSERT_TRUE(arguments.ok());
  for (int turn = 0; turn < 3; ++turn) {
    const kernels::Offer& o = (*offers)[turn == 0 ? 0 : rng->next() % offers->size()];
    Case c;
    std::string config = o.config;
    if (turn == 2)
      for (const kernels::Tunable& x : kernel->tunables)
        config += " " + std::string(x.name) + "=" + std::to_string(x.values[rng->next() % x.values.size()]);
    c.plain = g->clone();
    c.region = g->clone();
    c.name = t.text + " {" + config + "}";
    for (size_t k = 0; k < o.inputs.size(); ++k) {
      c.region.inputs[k]->type.layout = o.inputs[k];
      c.name += " @" + ir::type_text(c.region.inputs[k]->type);
    }
    c.region.outputs[0]->type.layout = o.outputs[0];
    c.arguments = *arguments;
    std::vector<Tensor> constants(arguments->size());
    for (size_t k = 0; k < constants.size(); ++k)
      if (t.constant[k]) constants[k] = (*arguments)[k];
    kernels::Packed packed;
    auto made = kernel->instantiate({&c.region, t.constant}, config, {constants, &packed, &kGpu, nullptr});
    ASSERT_TRUE(made.ok()) << c.name << made.error().text();
    c.instance = std::move(*made);
    out->push_back(std::move(c));
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  Rng rng(20261122);
  for (int k = 0; k < 9; ++k) {
    add_cases(random_gemm(&rng, k % 3 == 2 ? "bf16" : "f16"), &rng, &out);
    add_cases(random_conv(&rng, k % 3 == 2 ? "bf16" : "f16"), &rng, &out);
    if (k % 2 == 1) add_cases(random_narrow_conv(&rng, k % 3 == 2 ? "bf16" : "f16"), &rng, &out);
    add_cases(random_gated_conv(&rng, k % 3 == 2 ? "bf16" : "f16"), &rng, &out);
    if (k % 2 == 0) add_cases(random_conv_transpose(&rng, k % 3 == 2 ? "bf16" : "f16"), &rng, &out);
    add_cases(random_depthwise(&rng, k % 3 == 2 ? "bf16" : "f16"), &rng, &out);
    add_cases(random_attention(&rng, k % 3 == 2 ? "bf16" : "f16"), &rng, &out);
  }
  return out;
}

struct Guarded {
  std::vector<std::byte> memory;
  explicit Guarded(size_t bytes) : memory(bytes + 2 * kGuard, kPoison) {}
  std::byte* at() { return memory.data() + kGuard; }
  bool whole() const {
    const auto poison = [](std::byte b) { return b == kPoison; };
    return std::all_of(memory.begin(), memory.begin() + kGuard, poison) &&
           std::all_of(memory.end() - kGuard, memory.end(), poison);
  }
};

// Its answer as bytes.
std::vector<std::byte> check(const Case& c, const HostGpu& gpu) {
  SCOPED_TRACE(c.name);
  auto expected = make_expected(c.plain, c.arguments, 1, 7);
  EXPECT_TRUE(expected.ok()) << expected.error().text();
  if (!expected.ok()) return {};
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < c.arguments.size(); ++k)
    inputs.push_back(*exec::to_layout(c.arguments[k], c.region.inputs[k]->type.layout));
  const ir::Value& y = *c.region.outputs[0];
  const std::vector<int64_t> dims = kernels::dims_of(y);
  Tensor result = *Tensor::zeros(y.type.dtype, exec::physical_dims(dims, y.type.layout));
  Guarded memory(result.bytes().size()), workspace(c.instance->workspace_bytes());
  const std::vector<Tensor> packed = c.packed();
  for (const KernelLaunch& l : c.launches()) {
    std::vector<void*> addresses;
    for (const LaunchArgument& a : l.arguments) {
      const auto bytes = [](const Tensor& t) { return const_cast<std::byte*>(t.bytes().data()); };
      addresses.push_back(a.from == LaunchArgument::From::kInput    ? bytes(inputs[a.index])
                          : a.from == LaunchArgument::From::kPacked ? bytes(packed[a.index])
                          : a.from == LaunchArgument::From::kOutput ? memory.at()
                                                                    : workspace.at());
    }
    gpu.run(l, addresses);
  }
  EXPECT_TRUE(workspace.whole() && memory.whole());
  std::memcpy(const_cast<std::byte*>(result.bytes().data()), memory.at(), result.bytes().size());
  const auto error = compare(*expected, std::vector<Tensor>{*exec::from_layout(result, y.type.layout, dims)});
  EXPECT_TRUE(error.ok()) << error.error().text();
  return {result.bytes().begin(), result.bytes().end()};
}

Status compile(const std::vector<Case>& cases, HostGpu* gpu) {
  for (const Case& c : cases)
    for (const KernelLaunch& l : c.launches()) gpu->add(l.text, l.entry);
  static int runs = 0;  // a library of a name that is loaded already would be that one
  const std::string folder =
      fs::temp_directory_path() / ("peri_mma_" + std::to_string(getpid()) + "_" + std::to_string(runs++));
  fs::create_directory(folder);
  Status compiled = gpu->compile(folder);
  fs::remove_all(folder);
  return compiled;
}

TEST(CudaMma, IsRightAtRandomSizes) {
  const std::vector<Case> cases = all_cases();
  HostGpu gpu;
  const Status compiled = compile(cases, &gpu);
  ASSERT_TRUE(compiled.ok()) << compiled.error().text();
  for (const Case& c : cases) check(c, gpu);
}

void scale(Tensor* t, float by) {
  auto* const words = t->mutable_as<uint16_t>();
  for (int64_t k = 0; k < t->numel(); ++k)
    words[k] =
        std::bit_cast<uint16_t>(static_cast<_Float16>(static_cast<float>(std::bit_cast<_Float16>(words[k])) * by));
}

// Every tile with some number of parts, ragged and empty ones among them, each joined by a cluster, then by a launch.
void add_joins(std::vector<Case>* cases) {
  constexpr const char* kTiles[] = {"tm=128 tn=256 warps=8", "tm=256 tn=128 warps=8", "tm=128 tn=128 warps=8",
                                    "tm=128 tn=128 warps=4", "tm=128 tn=64 warps=4",  "tm=64 tn=128 warps=4",
                                    "tm=64 tn=64 warps=4",   "tm=128 tn=32 warps=4",  "tm=32 tn=128 warps=4",
                                    "tm=64 tn=32 warps=4",   "tm=32 tn=64 warps=4",   "tm=32 tn=32 warps=4",
                                    "tm=16 tn=64 warps=4",   "tm=64 tn=16 warps=4",   "tm=16 tn=32 warps=2"};
  const Text texts[] = {
      {"cuda_gemm_mma",
       "graph { input x: f16[37,200]; input w: f16[200,72]; input b: f16[72]; input r: f16[37,72]; s = matmul(x, w); u "
       "= add(s, b); y = add(u, r); output y }",
       {false, true, true, false}},
      {"cuda_gemm_mma",
       "graph { input x: f16[19,600]; input w: f16[33,600]; input b: f16[33]; y = gemm(x, w, b) {transB=1}; output y }",
       {false, true, true}},
      {"cuda_conv_mma",
       "graph { input x: f16[1,40,7,6]; input w: f16[24,40,3,3]; input b: f16[24]; input r: f16[1,24,7,6]; s = conv(x, "
       "w, b) {pads=[1,1,1,1]}; u = add(s, r); y = relu(u); output y }",
       {false, true, true, false}}};
  for (size_t n = 0; n < std::size(texts); ++n) {
    auto g = ir::parse_graph(texts[n].text);
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << texts[n].text;
    const kernels::Kernel* const kernel = kernels::find(texts[n].kernel);
    const auto offers = kernel->offer({&*g, texts[n].constant}, kGpu);
    ASSERT_TRUE(offers.ok()) << offers.error().text();
    for (size_t k = 0; k < std::size(kTiles); ++k) {
      if (n > 0 && k % 4 != 2) continue;
      const int split = 2 << (n + k) % 3;
      auto arguments = make_arguments(*g, 11 * n + k);
      ASSERT_TRUE(arguments.ok());
      scale(&(*arguments)[0], k % 3 == 0 ? 32.0f : k % 3 == 1 ? 1.0f : 1.0f / 256);
      for (const bool cluster : {true, false}) {
        Case c;
        c.plain = g->clone();
        c.region = g->clone();
        for (size_t i = 0; i < c.region.inputs.size(); ++i) c.region.inputs[i]->type.layout = (*offers)[0].inputs[i];
        c.region.outputs[0]->type.layout = (*offers)[0].outputs[0];
        const std::string config = std::string(kTiles[k]) + format(" split=%d", split) + (cluster ? " cluster=1" : "");
        c.name = texts[n].text + " {" + config + "}";
        c.arguments = *arguments;
        std::vector<Tensor> constants(arguments->size());
        for (size_t i = 0; i < constants.size(); ++i)
          if (texts[n].constant[i]) constants[i] = (*arguments)[i];
        kernels::Packed packed;
        auto made = kernel->instantiate({&c.region, texts[n].constant}, config, {constants, &packed, &kGpu, nullptr});
        ASSERT_TRUE(made.ok()) << c.name << made.error().text();
        c.instance = std::move(*made);
        ASSERT_EQ(c.launches().size(), cluster ? 1u : 2u) << c.name;
        EXPECT_EQ(c.launches()[0].cluster, cluster ? split : 1) << c.name;
        EXPECT_EQ(c.instance->workspace_bytes() == 0, cluster) << c.name;
        cases->push_back(std::move(c));
      }
    }
  }
}

// Right, and bit for bit the same.
TEST(CudaMma, AClusterJoinsWhatALaunchJoins) {
  std::vector<Case> cases;
  add_joins(&cases);
  ASSERT_FALSE(cases.empty() || HasFatalFailure());
  HostGpu gpu;
  const Status compiled = compile(cases, &gpu);
  ASSERT_TRUE(compiled.ok()) << compiled.error().text();
  for (size_t k = 0; k < cases.size(); k += 2)
    EXPECT_EQ(check(cases[k], gpu), check(cases[k + 1], gpu)) << cases[k].name;
}

// No registers in memory: what ptxas says of every tile.
TEST(CudaMma, SpillsNothing) {
  auto compiler = device::cuda::Compiler::open("");
  if (!compiler.ok()) GTEST_SKIP() << compiler.error().text();
  Rng rng(1);
  std::vector<Case> cases;
  add_cases(random_gemm(&rng, "f16"), &rng, &cases);
  add_cases(random_conv(&rng, "bf16"), &rng, &cases);
  add_cases(random_depthwise(&rng, "f16"), &rng, &cases);
  add_cases(random_attention(&rng, "bf16"), &rng, &cases);
  std::vector<Case> joins;
  add_joins(&joins);
  for (Case& c : joins)
    if (c.launches()[0].cluster > 1) cases.push_back(std::move(c));
  for (const Case& c : cases)
    for (const char* chip : {"sm_80", "sm_90a"}) {
      const KernelLaunch& l = c.launches()[0];
      if (l.cluster > 1 && chip == std::string_view("sm_80")) continue;  // no such chip is given one
      const auto code = (*compiler)->compile({"cuda_mma", l.text, chip});
      ASSERT_TRUE(code.ok()) << c.name << code.error().text();
      EXPECT_NE(code->log.find("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"), std::string::npos)
          << c.name << code->log;
    }
}

}  // namespace
}  // namespace peri::tune
