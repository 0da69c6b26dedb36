// Builds without times for a GPU that is none: guesses choose the cover, only what it is made of is compiled and tried,
// and where that is wrong another cover stands in its place.
#include <gtest/gtest.h>

#include "build/build.hpp"
#include "exec/entry.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/tune/planted_pair.hpp"

namespace peri::build {
namespace {
using tune::planted::make_products;
using tune::planted::offer_products;

// Products of matrices of 8 by 8, expected to take so long; a wrong one adds one to each element.
template <int kNodes, int kGuess, bool kWrong = false>
kernels::Kernel guessed_products(std::string_view name) {
  kernels::Kernel k = tune::planted::products_kernel<kNodes, 1>(name);
  k.offer = [](const kernels::Problem& p, const device::Target& target) -> Result<std::vector<kernels::Offer>> {
    PERI_ASSIGN(auto offers, offer_products<kNodes>(p, target));
    for (const ir::Value* v : p.graph->inputs)
      if (kernels::dims_of(*v) != std::vector<int64_t>{8, 8}) return refused("another size");
    offers[0].guess_ms = kGuess;
    return offers;
  };
  if (kWrong)
    k.instantiate = [](const kernels::Problem& p, std::string_view config,
                       const kernels::InstantiateContext& c) -> Result<std::unique_ptr<kernels::Instance>> {
      PERI_ASSIGN(const auto made, (make_products<kNodes, 1>(p, config, c)));
      kernels::cuda::KernelLaunch l = dynamic_cast<const kernels::cuda::LaunchInstance&>(*made).launches()[0];
      const std::string right = "float all = 0;";
      l.text.replace(l.text.find(right), right.size(), "float all = 1;");
      return kernels::cuda::LaunchInstance::make({l});
    };
  k.samples = {kNodes == 1 ? "graph { input x: f32[8,8]; input w: f32[8,8]; y = matmul(x, w); output y }"
                           : "graph { input x: f32[8,8]; input w: f32[8,8]; input v: f32[8,8]; p = matmul(x, w); y = "
                             "matmul(p, v); output y }"};
  return k;
}

class CudaGuess : public device::tests::HostedGpu {
 protected:
  static Result<Built> built() {
    compile::Imported model;
    auto g = ir::parse_graph(
        "graph { input x: f32[8,8]; input w: f32[8,8]; input v: f32[8,8]; p = matmul(x, w); y = matmul(p, v); output "
        "y }");
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    model.graph = std::move(*g);
    Options o;
    o.compile.model = "guessed";
    o.compile.backend = "cuda";
    o.compile.tune.provider = "planted";
    o.compile.tune.measure = false;
    o.judge = true;
    static const auto kTable = exec::table();
    o.executors = kTable;
    return build_engine(o, std::move(model));
  }
  static std::vector<std::string> chosen(const Built& b) {
    std::vector<std::string> out;
    for (const lower::StepReport& s : b.compiled.steps)
      if (!s.conversion) out.push_back(s.chosen.substr(0, s.chosen.find('@')));
    return out;
  }
};

TEST_F(CudaGuess, OnlyWhatTheCoverIsMadeOfIsTried) {
  const kernels::Kernel one = guessed_products<1, 1>("guess_one"), pair = guessed_products<2, 9>("guess_pair");
  const kernels::AddedKernel known(one), other(pair);
  const auto b = built();
  ASSERT_TRUE(b.ok()) << b.error().text();
  EXPECT_EQ(chosen(*b), (std::vector<std::string>{"guess_one", "guess_one"}));
  EXPECT_EQ(b->compiled.tuned.problems, 1) << "both products are one problem, and the pair is none of the cover's";
  EXPECT_TRUE(b->verdict.right());
  EXPECT_GT(b->verdict.sizes.at(0).steps_judged, 0);
  for (const lower::StepReport& s : b->compiled.steps)
    if (!s.conversion) EXPECT_TRUE(s.evidence.tried()) << s.name;
}

TEST_F(CudaGuess, AnotherCoverStandsWhereTheFirstIsWrong) {
  const kernels::Kernel one = guessed_products<1, 1, true>("guess_wrong"), pair = guessed_products<2, 9>("guess_both");
  const kernels::AddedKernel known(one), other(pair);
  const auto b = built();
  ASSERT_TRUE(b.ok()) << b.error().text();
  EXPECT_EQ(chosen(*b), std::vector<std::string>{"guess_both"});
  EXPECT_EQ(b->compiled.tuned.problems, 2);
  EXPECT_TRUE(b->verdict.right());
}

}  // namespace
}  // namespace peri::build
