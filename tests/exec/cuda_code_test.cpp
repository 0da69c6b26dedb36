// Code of a candidate is compiled ahead, whether its kernel packs weights or not, for which no weight is needed.
#include "exec/cuda_code.hpp"

#include <gtest/gtest.h>

#include "device/cuda/code_shelf.hpp"
#include "tests/device/cuda_fakes.hpp"

namespace peri::exec {
namespace {
using device::cuda::CodeShelf;
using device::tests::Fakes;
using device::tests::Folder;
using device::tests::Variable;

struct Ahead {
  const char *kernel, *text;
};
constexpr Ahead kAhead[] = {
    {"cuda_conv_mma",
     "graph { input x: f16[1,16,9,11]; input w: f16[24,16,3,3]; y = conv(x, w) {pads=[1,1,1,1]}; output y }"},
    {"cuda_depthwise",
     "graph { input x: f16[2,24,9,8]; input w: f16[24,1,3,3]; y = conv(x, w) {pads=[1,1,1,1], group=24}; output y }"},
    {"cuda_conv_transpose_mma",
     "graph { input x: f16[2,24,5,4]; input w: f16[24,16,2,2]; y = conv_transpose(x, w) {strides=[2,2]}; output y }"},
    {"cuda_gemm_mma", "graph { input x: f16[37,88]; input w: f16[88,72]; y = matmul(x, w); output y }"},
    {"cuda_elementwise", "graph { input x: f32[37,88]; input w: f32[37,88]; y = add(x, w); output y }"},
};

TEST(CudaCode, IsCompiledAheadWithoutWeights) {
  const Folder folder;
  const Variable cache("PERI_CACHE", folder.path.string());
  const Fakes fakes{{"libcuda.so.1", "driver"}, {"libnvrtc.so.13", "nvrtc"}};
  Fakes::control<void(long, int)>("nvrtc", "fake_nvrtc_fail")(0, 0);
  const auto shelf = CodeShelf::of_process();
  ASSERT_TRUE(shelf.ok()) << shelf.error().text();
  device::Target target = device::cpu_target(1);
  target.isas.push_back("sm_90");
  for (const Ahead& a : kAhead) {
    SCOPED_TRACE(a.kernel);
    auto g = ir::parse_graph(a.text);
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    const kernels::Kernel& kernel = *kernels::find(a.kernel);
    const kernels::Problem problem{&*g, {false, true}};
    const auto offers = kernel.offer(problem, target);
    ASSERT_TRUE(offers.ok()) << offers.error().text();
    const kernels::Offer& o = offers->front();
    const size_t before = (*shelf)->held().entries;
    foresee_code(kernel, problem, o, target);
    EXPECT_GT((*shelf)->held().entries, before) << "its code is on the way";
    // What a step with weights and layouts asks for is what was foreseen.
    for (size_t k = 0; k < o.inputs.size(); ++k) g->inputs[k]->type.layout = o.inputs[k];
    for (size_t k = 0; k < o.outputs.size(); ++k) g->outputs[k]->type.layout = o.outputs[k];
    std::vector<Tensor> constants(2);
    constants[1] = *Tensor::zeros(g->inputs[1]->type.dtype, kernels::dims_of(*g->inputs[1]));
    kernels::Packed packed;
    const auto made = kernel.instantiate(problem, o.config, {constants, &packed, &target, nullptr});
    ASSERT_TRUE(made.ok()) << made.error().text();
    const size_t then = (*shelf)->held().entries;
    for (const auto& l : dynamic_cast<const kernels::cuda::LaunchInstance&>(**made).launches())
      EXPECT_TRUE((*shelf)->get(source_of(kernel, l, "sm_90")).ok());
    EXPECT_EQ((*shelf)->held().entries, then) << "none that was not foreseen";
  }
}

}  // namespace
}  // namespace peri::exec
