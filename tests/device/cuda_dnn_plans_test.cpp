// The real cuDNN, where there is one, plans every class of graph that we ask of it for an H200 that is not here: each
// class has engines, the first can be made, and with the pinned version they are those that are listed here.
#include <sstream>

#include "tests/device/attention_forms.hpp"
#include "tests/device/conv_forms.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/device/devices.hpp"
#include "tests/device/h200_properties.hpp"

namespace peri::device::tests {
namespace {
namespace fs = std::filesystem;
using cuda::Cudnn;
using cuda::DnnAttention;
using cuda::DnnChoice;
using cuda::DnnConv;

constexpr size_t kWorkspace = size_t{64} << 20;
constexpr cuda::Version kPinned = {9, 19, 0};  // of tools/requirements_cuda.txt

std::string text_of(const DnnChoice& c) {
  std::ostringstream out;
  out << c.engine;
  for (size_t k = 0; k < c.knobs.size(); ++k)
    out << (k == 0 ? "{" : " ") << c.knobs[k].first << ":" << c.knobs[k].second << (k + 1 == c.knobs.size() ? "}" : "");
  return out.str();
}

class Plans : public testing::Test {
 protected:
  void SetUp() override {
    // What ./dev setup cuda fetched goes before what the machine has.
    const fs::path pinned = fs::path(fake_file("")).parent_path() / "../../cuda/nvidia/cudnn/lib";
    if (fs::exists(pinned / "libcudnn.so.9")) path_.emplace("PERI_CUDA_PATH", pinned.string());
    const auto there = cuda::open_library(cuda::Vendor::kCudnn);
    if (!there.ok()) GTEST_SKIP() << "there is no cuDNN: " << there.error().text() << "; ./dev setup cuda fetches it";
    // Open before the library looks for it: a driver of this machine would know of no H200.
    ASSERT_NE(dlopen(fake_file("planning_driver").c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    auto made = Cudnn::planning_for(kH200Properties);
    ASSERT_TRUE(made.ok()) << made.error().text();
    library_ = *std::move(made);
  }
  // The first engines of a graph, of which the first can be made.
  template <class Graph>
  void expect_plans(const char* name, const Graph& graph, const std::string& wanted) {
    SCOPED_TRACE(name);
    const auto choices = library_->choices(graph, 3);
    if (wanted == "none") {  // of those that we take: not compiled, sums in float32
      if (library_->version() == kPinned) EXPECT_EQ(choices.error().kind, ErrorKind::kRefused);
      return;
    }
    ASSERT_TRUE(choices.ok()) << choices.error().text();
    std::string found;
    for (const DnnChoice& c : *choices) found += (found.empty() ? "" : " ") + text_of(c);
    if (library_->version() == kPinned) {
      EXPECT_EQ(found, wanted);
    }
    const auto ready = library_->make(graph, &choices->front(), kWorkspace);
    ASSERT_TRUE(ready.ok()) << ready.error().text();
    const Status ran = (*ready)->enqueue({}, nullptr);
    EXPECT_EQ(ran.ok() ? ErrorKind::kInternal : ran.error().kind, ErrorKind::kUnsupported);
  }

  static long compiled() { return Fakes::control<long()>("planning_driver", "fake_planned")(); }

  std::optional<Variable> path_;
  std::shared_ptr<const Cudnn> library_;
};

struct Layer {
  const char* name;
  DType dtype;
  int64_t batch, channels, size, results, window, stride, groups;
  const char* joined;  // r: residual, b: bias, a: relu
  const char* engines;
};
DnnConv conv_of(const Layer& l) {
  DnnConv v;
  v.dtype = l.dtype;
  v.n = l.batch;
  v.c = l.channels;
  v.h = v.w = l.size;
  v.k = l.results;
  v.r = v.s = l.window;
  v.groups = l.groups;
  v.stride = {l.stride, l.stride};
  v.before = v.after = {l.window / 2, l.window / 2};
  v.oh = v.ow = (l.size + 2 * (l.window / 2) - l.window) / l.stride + 1;
  const std::string_view joined = l.joined;
  v.residual = joined.find('r') != joined.npos;
  v.bias = joined.find('b') != joined.npos;
  v.relu = joined.find('a') != joined.npos;
  return v;
}

TEST_F(Plans, ConvolutionsHaveTheEnginesThatAreListed) {
  const Layer layers[] = {
#define PERI_LAYER(...) {__VA_ARGS__},
#include "tests/device/h200_convolutions.def"
#undef PERI_LAYER
  };
  for (const Layer& l : layers) expect_plans(l.name, conv_of(l), l.engines);
}

struct Heads {
  const char* name;
  DType dtype;
  int64_t batch, heads, kv_heads, queries, keys, depth;
  DType mask;
  int64_t mask_heads, mask_queries;
  bool causal;
  const char* engines;
};
DnnAttention attention_of(const Heads& h) {
  DnnAttention v = tests::attention_of(h.dtype, h.batch, h.heads, h.queries, h.keys, h.depth);
  v.kv_heads = h.kv_heads;
  v.k = v.v = dense_heads(true, h.kv_heads, h.keys, h.depth);
  v.mask = h.mask;
  if (h.mask != DType::kInvalid) v.mask_dims = {h.batch, h.mask_heads, h.mask_queries, h.keys};
  v.causal = h.causal;
  return v;
}

TEST_F(Plans, AttentionsHaveTheEnginesThatAreListed) {
  const long before = compiled();
  const Heads all[] = {
#define PERI_HEADS(...) {__VA_ARGS__},
#include "tests/device/h200_attentions.def"
#undef PERI_HEADS
  };
  for (const Heads& h : all) expect_plans(h.name, attention_of(h), h.engines);
  EXPECT_GE(compiled() - before, static_cast<long>(std::size(all))) << "each was compiled to code that a driver took";
}

TEST_F(Plans, ThePropertiesAreThoseOfTheH200) {
  const std::string text = must(library_->properties());
  EXPECT_NE(text.find("\"multiProcessorCount\":132"), std::string::npos) << text;
}

// The list above cannot hold by chance: an engine that is none, and other knobs, are refused.
TEST_F(Plans, WhatTheLibraryDoesNotHaveIsRefused) {
  DnnConv v = conv_form(DType::kF16, 15);
  v.c = 16;
  v.k = 32;
  const DnnChoice none = {9999, {}};
  const auto ready = library_->make(v, &none, kWorkspace);
  ASSERT_FALSE(ready.ok());
  EXPECT_EQ(ready.error().kind, ErrorKind::kRefused) << ready.error().text();
  const auto other = Cudnn::planning_for(R"({"deviceVer":900})");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::kInvalid) << other.error().text();
}

}  // namespace
}  // namespace peri::device::tests
