// What data may say wrongly to a kernel of a GPU: an axis, an index, a class, a position or a region out of range is
// told by the step's word and its error, and nothing is written beside the results.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "ops/entry.hpp"
#include "tests/tune/cuda_cases.hpp"

namespace peri::tune {
namespace {
namespace fs = std::filesystem;
using kernels::cuda::LaunchArgument;

struct Wrong {
  const char* kernel;
  const char* text;
  size_t input;  // whose first element is `value`; other integers are 0
  double value;
  const char* error = "";  // a word of it; "": the value is right
};
constexpr Wrong kWrong[] = {
    {"cuda_scan", "input x: f32[2,3]; input a: i64[]; y = cum_sum(x, a)", 1, -2},
    {"cuda_scan", "input x: f32[2,3]; input a: i64[]; y = cum_sum(x, a)", 1, 2, "[-2, 2)"},
    {"cuda_scan", "input x: i32[2,3]; input a: i32[1]; y = cum_prod(x, a)", 1, -3, "[-2, 2)"},
    {"cuda_scatter", "input d: f32[4,3]; input i: i64[2,3]; input u: f32[2,3]; y = scatter_elements(d, i, u)", 1, -4},
    {"cuda_scatter", "input d: f32[4,3]; input i: i64[2,3]; input u: f32[2,3]; y = scatter_elements(d, i, u)", 1, 4,
     "[-4, 3]"},
    {"cuda_scatter",
     "input d: f32[4,3]; input i: i64[2,3]; input u: f32[2,3]; y = scatter_elements(d, i, u) {reduction=\"add\"}", 1,
     -5, "[-4, 3]"},
    {"cuda_scatter", "input d: f32[4,3]; input i: i64[2,1]; input u: f32[2,3]; y = scatter_nd(d, i, u)", 1, 9,
     "[-4, 3]"},
    {"cuda_scatter", "input x: f32[1,1,2]; input i: i64[1,1,2]; y = max_unpool(x, i) {kernel_shape=[2], strides=[2]}",
     1, -1, "[0, 3]"},
    {"cuda_scatter", "input c: f32[1,4,3]; input u: f32[1,2,3]; input w: i64[1]; y = tensor_scatter(c, u, w)", 2, 3,
     "leave room"},
    {"cuda_losses", "input x: f32[3,5]; input t: i64[3]; y = negative_log_likelihood_loss(x, t)", 1, 5, "[0, 5)"},
    {"cuda_losses", "input x: f32[3,5]; input t: i64[3]; y = negative_log_likelihood_loss(x, t) {reduction=\"none\"}",
     1, -1, "[0, 5)"},
    {"cuda_rotary",
     "input x: f32[1,1,2,4]; input c: f32[3,2]; input s: f32[3,2]; input p: i64[1,2]; y = rotary_embedding(x, c, s, p)",
     3, 3, "[0, 3)"},
    {"cuda_roi", "input x: f32[2,1,4,4]; input r: f32[1,4]; input b: i64[1]; y = roi_align(x, r, b)", 2, 2, "[0, 2)"},
    {"cuda_roi", "input x: f32[2,1,4,4]; input r: f32[1,4]; input b: i64[1]; y = roi_align(x, r, b)", 1, -1e9,
     "4096 samples"}};

// Bytes between guards.
struct Memory {
  std::vector<std::byte> all;
  explicit Memory(size_t bytes) : all(bytes + 128, std::byte{0xcb}) {}
  void* at() { return all.data() + 64; }
  bool whole() const {
    return std::count(all.begin(), all.begin() + 64, std::byte{0xcb}) == 64 &&
           std::count(all.end() - 64, all.end(), std::byte{0xcb}) == 64;
  }
};

struct Planned {
  ir::Graph graph;
  std::unique_ptr<kernels::Instance> instance;
};

TEST(CudaFaults, WhatDataSayIsCheckedByEachKernel) {
  HostGpu gpu;
  std::vector<Planned> all;
  for (const Wrong& w : kWrong) {
    auto g = ir::parse_graph("graph { " + std::string(w.text) + "; output y }");
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << w.text;
    kernels::Packed packed;
    const std::vector<Tensor> none(g->inputs.size());
    auto made = kernels::find(w.kernel)->instantiate({&*g, std::vector<bool>(none.size(), false)}, "",
                                                     {none, &packed, &some_gpu(), nullptr});
    ASSERT_TRUE(made.ok()) << w.text << ": " << made.error().text();
    for (const auto& l : dynamic_cast<const kernels::cuda::LaunchInstance&>(**made).launches())
      gpu.add(l.text, l.entry);
    all.push_back({std::move(*g), std::move(*made)});
  }
  const std::string folder = fs::temp_directory_path() / ("peri_wrong_" + std::to_string(getpid()));
  fs::create_directory(folder);
  const Status compiled = gpu.compile(folder);
  fs::remove_all(folder);
  ASSERT_TRUE(compiled.ok()) << compiled.error().text();
  for (size_t k = 0; k < all.size(); ++k) {
    SCOPED_TRACE(kWrong[k].text);
    const auto& instance = dynamic_cast<const kernels::cuda::LaunchInstance&>(*all[k].instance);
    std::vector<Tensor> in;
    for (const ir::Value* v : all[k].graph.inputs) {
      in.push_back(Tensor::zeros(v->type.dtype, kernels::dims_of(*v)).value());
      if (in.size() - 1 != kWrong[k].input) continue;
      if (is_float(v->type.dtype))
        in.back().set_f64(0, kWrong[k].value);
      else
        in.back().set_i64(0, static_cast<int64_t>(kWrong[k].value));
    }
    const ir::Value& y = *all[k].graph.outputs[0];
    Memory out(Tensor::zeros(y.type.dtype, kernels::dims_of(y)).value().bytes().size()),
        workspace(instance.workspace_bytes());
    int32_t fault = 0;
    for (const auto& l : instance.launches()) {
      std::vector<void*> at;
      for (const LaunchArgument& a : l.arguments)
        at.push_back(a.from == LaunchArgument::From::kInput
                         ? const_cast<void*>(static_cast<const void*>(in[a.index].data()))
                     : a.from == LaunchArgument::From::kOutput ? out.at()
                     : a.from == LaunchArgument::From::kFault  ? static_cast<void*>(&fault)
                                                               : workspace.at());
      gpu.run(l, at);
    }
    EXPECT_TRUE(out.whole() && workspace.whole());
    const std::string error = kWrong[k].error;
    ASSERT_EQ(fault != 0, !error.empty());
    if (fault == 0) continue;
    ASSERT_LE(static_cast<size_t>(fault), instance.faults().size());
    EXPECT_NE(instance.faults()[static_cast<size_t>(fault) - 1].text().find(error), std::string::npos)
        << instance.faults()[static_cast<size_t>(fault) - 1].text();
  }
}

}  // namespace
}  // namespace peri::tune
