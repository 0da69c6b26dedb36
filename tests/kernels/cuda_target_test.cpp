// Kernels of a GPU follow the target they are handed: how many multiprocessors share the work, what a block may have; a
// recorded target gives the same offers as the one that was detected.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/code/launch.hpp"

namespace peri::kernels {
namespace {

Target gpu(const std::string& chip, int multiprocessors) {
  Target t{device::Kind::kCuda, "a GPU", {chip}, multiprocessors, {}, {}};
  t.multiprocessors = multiprocessors;
  return device::with_gpu(device::cpu_target(1), t);
}

ir::Graph parsed(const char* text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
  return std::move(*g);
}

constexpr const char* kGraphs[] = {
    "graph { input x: f16[64,4096]; input w: f16[4096,1024]; y = matmul(x, w); output y }",
    "graph { input x: f16[1,256,14,14]; input w: f16[256,256,3,3]; y = conv(x, w) {pads=[1,1,1,1]}; output y }",
    "graph { input x: f16[1,96,56,56]; input w: f16[96,1,3,3]; y = conv(x, w) {pads=[1,1,1,1], group=96}; output y }",
    "graph { input q: f16[1,12,256,64]; input k: f16[1,12,256,64]; input v: f16[1,12,256,64]; y = attention(q, k, v); "
    "output y }",
    "graph { input q: f16[1,8,512,128]; input k: f16[1,8,512,128]; input v: f16[1,8,512,128]; y = attention(q, k, v); "
    "output y }",
};
constexpr const char* kKernels[] = {"cuda_gemm_mma", "cuda_conv_mma", "cuda_depthwise", "cuda_attention_mma",
                                    "cuda_attention_mma"};

// Heads of 128 too: three stages of keys and values take 100 KiB, two fit where a block may have less.
std::vector<Offer> offers(size_t k, const ir::Graph& g, const Target& target) {
  auto out = find(kKernels[k])->offer({&g, {false, k < 3, false}}, target);
  EXPECT_TRUE(out.ok()) << kKernels[k] << (out.ok() ? "" : out.error().text());
  return out.ok() ? std::move(*out) : std::vector<Offer>{};
}
std::string order(const std::vector<Offer>& offers) {
  std::string out;
  for (const Offer& o : offers) out += o.config + "\n";
  return out;
}

TEST(CudaTarget, FewMultiprocessorsAreExpectedToTakeLonger) {
  int other = 0;
  for (size_t k = 0; k < std::size(kKernels); ++k) {
    const ir::Graph g = parsed(kGraphs[k]);
    const auto large = offers(k, g, gpu("sm_90", 132)), small = offers(k, g, gpu("sm_90", 8));
    EXPECT_LT(large[0].guess_ms, small[0].guess_ms) << kKernels[k];
    other += order(large) != order(small);
  }
  EXPECT_GE(other, 2) << "the choice of tiles and parts follows their number";
}

TEST(CudaTarget, ARecordedOneGivesTheSameOffers) {
  for (const Target& target : {gpu("sm_90", 132), gpu("sm_120", 84)}) {
    const auto again = device::parse_target(device::target_text(target));
    ASSERT_TRUE(again.ok()) << again.error().text();
    for (size_t k = 0; k < std::size(kKernels); ++k) {
      const ir::Graph g = parsed(kGraphs[k]);
      const auto a = offers(k, g, target), b = offers(k, g, *again);
      ASSERT_EQ(order(a), order(b));
      for (size_t n = 0; n < a.size(); ++n) EXPECT_EQ(a[n].guess_ms, b[n].guess_ms);
    }
  }
}

// Parts that a cluster joins are joined by a launch of their own where there are no clusters, and none are offered
// there.
TEST(CudaTarget, ClustersAreForChipsThatHaveThem) {
  for (const auto& [chip, has] : {std::pair("sm_80", false), {"sm_86", false}, {"sm_90", true}, {"sm_120", true}})
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const ir::Graph plain = parsed(kGraphs[k]);
      const Target target = gpu(chip, 132);
      const auto list = offers(k, plain, target);
      const auto clusters = [](const Offer& o) { return o.config.ends_with("cluster=1"); };
      EXPECT_EQ(std::any_of(list.begin(), list.end(), clusters), has) << chip << " " << kKernels[k];
      ir::Graph g = plain.clone();
      for (size_t n = 0; n < list[0].inputs.size(); ++n) g.inputs[n]->type.layout = list[0].inputs[n];
      g.outputs[0]->type.layout = list[0].outputs[0];
      Packed packed;
      const auto made = find(kKernels[k])
                            ->instantiate({&g, {false, true}}, "tm=32 tn=32 warps=4 split=4 cluster=1",
                                          {std::vector<Tensor>(2), &packed, &target, nullptr});
      ASSERT_TRUE(made.ok()) << made.error().text();
      const auto& launches = dynamic_cast<const cuda::LaunchInstance&>(**made).launches();
      ASSERT_EQ(launches.size(), has ? 1u : 2u) << chip;
      EXPECT_EQ(launches[0].cluster, has ? 4 : 1);
      EXPECT_EQ(launches[0].text.find("barrier.cluster") != std::string::npos, has);
    }
}

TEST(CudaTarget, NoBlockAsksForMoreThanItMayHave) {
  int64_t most = 0;
  for (const auto& [chip, room] :
       {std::pair("sm_80", 163 << 10), {"sm_86", 99 << 10}, {"sm_90", 227 << 10}, {"sm_120", 99 << 10}})
    for (size_t k = 0; k < std::size(kKernels); ++k) {
      const ir::Graph plain = parsed(kGraphs[k]);
      const Target target = gpu(chip, 60);
      EXPECT_EQ(cuda::limits_of(target).shared_bytes, room);
      for (const Offer& o : offers(k, plain, target)) {
        ir::Graph g = plain.clone();
        for (size_t n = 0; n < o.inputs.size(); ++n) g.inputs[n]->type.layout = o.inputs[n];
        for (size_t n = 0; n < o.outputs.size(); ++n) g.outputs[n]->type.layout = o.outputs[n];
        Packed packed;
        const std::vector<Tensor> none(g.inputs.size());
        const auto made =
            find(kKernels[k])->instantiate({&g, {false, k < 3, false}}, o.config, {none, &packed, &target, nullptr});
        ASSERT_TRUE(made.ok()) << made.error().text();
        for (const cuda::KernelLaunch& l : dynamic_cast<const cuda::LaunchInstance&>(**made).launches()) {
          EXPECT_LE(l.shared_bytes, room) << chip << " " << kKernels[k] << " " << o.config;
          most = std::max(most, l.shared_bytes);
        }
      }
    }
  EXPECT_GT(most, 99 << 10) << "a large chip's room is used";
}

}  // namespace
}  // namespace peri::kernels
