// A query whose keys are all hidden by a finite mask, in every attention kernel of a GPU: it gives what float32 gives,
// the mean of all values, since -3.4e38 leaves nothing of a score; masks of 16 bits hold the largest number instead.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "ops/entry.hpp"
#include "tests/tune/cuda_cases.hpp"

namespace peri::tune {
namespace {

// The heads of a problem, with a mask and what follows; rows 1 and 3 of four queries are hidden.
std::string text_of(const char* t, const std::string& mask, const std::string& node, int depth) {
  return format(
      "graph { input q: %s[1,2,4,%d]; input k: %s[1,2,70,%d]; input v: %s[1,2,70,%d]; const m: %s; y = %s; "
      "output y }",
      t, depth, t, depth, t, depth, mask.c_str(), node.c_str());
}
std::vector<std::string> texts(const char* t) {
  const std::string rows = "f32[4,1] = [0.0, -3.4e38, 0.0, -3.4028235e38]", keys = "f32[70] = splat(-3.4e38)",
                    own = std::string(t) + "[4,1] = [0.0, " + (t[0] == 'f' ? "-65504.0" : "-3.3895e38") + ", 0.0, 0.0]";
  return {text_of(t, rows, "attention(q, k, v, m)", 16),
          text_of(t, rows, "attention(q, k, v, m) {causal=1}", 64),
          text_of(t, rows, "attention(q, k, v, m) {softcap=5.0}", 16),
          text_of(t, keys, "attention(q, k, v, m)", 16),
          text_of(t, keys, "attention(q, k, v, m) {causal=1, zero_hidden_rows=1}", 40),
          text_of(t, own, "attention(q, k, v, m)", 16),
          text_of(t, rows, "onnx_attention(q, k, v, m)", 16),
          text_of(t, keys, "onnx_attention(q, k, v, m) {is_causal=1, softcap=5.0}", 16),
          text_of(t, own, "onnx_attention(q, k, v, m) {is_causal=1}", 16)};
}

std::vector<SampleProblem> problems() {
  std::vector<SampleProblem> out;
  for (const char* t : {"f32", "f16", "bf16"})
    for (const std::string& text : texts(t)) {
      if (t == std::string_view("f32") && text.find("-65504") != std::string::npos) continue;
      auto g = ir::parse_graph(text);
      EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
      if (g.ok()) out.push_back({std::move(*g), std::vector<bool>(3, false)});
    }
  return out;
}

TEST(CudaHidden, EveryAttentionKernelGivesWhatTheDefinitionGives) {
  std::vector<SampleProblem> all = problems();
  const std::vector<Case> cases = cuda_cases(all);
  const auto is_products = [](const Case& c) { return c.kernel->name == "cuda_attention_products"; };
  EXPECT_GE(std::count_if(cases.begin(), cases.end(), is_products), 2);
  for (const char* kernel : {"cuda_attention", "cuda_attention_mma", "cuda_attention_open"})
    for (const char* t : {"f16", "bf16"}) {
      int count = 0;
      for (const Case& c : cases)
        count +=
            c.kernel->name == kernel && c.region.inputs[0]->type.dtype == (t[0] == 'f' ? DType::kF16 : DType::kBF16);
      EXPECT_GE(count, 2) << kernel << " in " << t;
    }
  run_cases(cases);
}

// The bound of a sum with -3.4e38 is wide: the rows themselves are the mean of all values, to what their type stores.
TEST(CudaHidden, AHiddenRowIsTheMeanOfAllValues) {
  using kernels::cuda::LaunchArgument;
  std::vector<SampleProblem> all;
  for (const char* t : {"f16", "bf16", "f32"}) {
    // ONNX's operator takes keys beyond a mask as hidden by -inf, so its mask is one of all keys.
    const std::string open = text_of(t, "f32[70] = splat(-3.4e38)", "onnx_attention(q, k, v, m)", 16);
    for (const std::string& text : {texts(t)[0], open}) {
      auto g = ir::parse_graph(text);
      ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
      all.push_back({std::move(*g), std::vector<bool>(3, false)});
    }
  }
  const std::vector<Case> cases = cuda_cases(all, false, {.run = false});
  HostGpu gpu;
  for (const Case& c : cases)
    for (const auto& launch : c.launches()) gpu.add(launch.text, launch.entry);
  const std::string folder = std::filesystem::temp_directory_path() / ("peri_hidden_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const Status compiled = gpu.compile(folder);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(compiled.ok()) << compiled.error().text();
  std::set<std::string_view> ran;
  for (const Case& c : cases) {
    ran.insert(c.kernel->name);
    std::vector<Tensor> in;
    for (const ir::Value* v : c.region.inputs) {
      in.push_back(Tensor::zeros(v->type.dtype, kernels::dims_of(*v)).value());
      for (int64_t k = 0; k < in.back().numel(); ++k) in.back().set_f64(k, std::sin(static_cast<double>(k * k)));
    }
    Tensor y = Tensor::zeros(in[0].dtype(), {1, 2, 4, 16}).value();
    std::vector<std::byte> workspace(c.instance->workspace_bytes());
    const std::vector<Tensor> packed = c.packed();
    for (const auto& launch : c.launches()) {
      std::vector<void*> at;
      for (const LaunchArgument& a : launch.arguments) {
        const auto given = [](const Tensor& x) { return const_cast<void*>(static_cast<const void*>(x.data())); };
        at.push_back(a.from == LaunchArgument::From::kInput    ? given(in[a.index])
                     : a.from == LaunchArgument::From::kPacked ? given(packed[a.index])
                     : a.from == LaunchArgument::From::kOutput ? given(y)
                                                               : static_cast<void*>(workspace.data()));
      }
      gpu.run(launch, at);
    }
    for (const int64_t row : {1, 3})
      for (int64_t d = 0; d < 16; ++d) {
        double mean = 0;
        for (int64_t j = 0; j < 70; ++j) mean += in[2].f64(j * 16 + d) / 70;
        EXPECT_NEAR(y.f64(row * 16 + d), mean, 4 * unit_roundoff(y.dtype())) << c.name() << " row " << row;
      }
  }
  EXPECT_EQ(ran, (std::set<std::string_view>{"cuda_attention", "cuda_attention_mma", "cuda_attention_open",
                                             "cuda_attention_products"}));
}

// And that is the mean of the values: what it is held to is what float32 gives.
TEST(CudaHidden, TheDefinitionGivesTheMeanOfAllValues) {
  auto g = ir::parse_graph(texts("f16")[0]);
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  std::vector<ops::RefTensor> in;
  for (const ir::Value* v : g->inputs) {
    Tensor t = Tensor::zeros(DType::kF16, {1, 2, v->name == "q" ? 4 : 70, 16}).value();
    for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, std::sin(static_cast<double>(k * k)));
    in.push_back(ops::to_ref(t));
  }
  const auto y = ops::run_reference(*g, in, {0, 1, true});
  ASSERT_TRUE(y.ok()) << y.error().text();
  for (const int64_t row : {1, 3})
    for (int64_t d = 0; d < 16; ++d) {
      double mean = 0;
      for (int64_t j = 0; j < 70; ++j) mean += in[2].f[static_cast<size_t>(j * 16 + d)] / 70;
      EXPECT_NEAR((*y)[0].f[static_cast<size_t>(row * 16 + d)], mean, 3e-4);  // stored as float16
    }
}

}  // namespace
}  // namespace peri::tune
