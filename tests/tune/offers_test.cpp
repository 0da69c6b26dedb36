// Planning offers nothing that making refuses: every offer of every kernel, on every sample that it takes, becomes an
// instance of an engine in the layouts that it asked for. Without it a build that tries nothing fails as it loads.
#include <gtest/gtest.h>

#include "device/target.hpp"
#include "exec/entry.hpp"
#include "kernels/entry.hpp"
#include "tests/tune/cuda_cases.hpp"
#include "tune/arguments.hpp"
#include "tune/sample_regions.hpp"

namespace peri::tune {
namespace {

// The offers of a kernel for a problem that cannot be made, in words; counts all.
std::vector<std::string> unmade(const kernels::Kernel& kernel, const device::Target& target, const SampleProblem& p,
                                int64_t* offered) {
  std::vector<std::string> out;
  const auto offers = kernel.offer({&p.region, p.constant}, target);
  if (!offers.ok() || offers->empty()) return out;
  auto arguments = make_arguments(p.region, 7);
  if (!arguments.ok()) return out;
  std::vector<Tensor> constants(p.constant.size());
  for (size_t k = 0; k < constants.size(); ++k)
    if (p.constant[k]) constants[k] = (*arguments)[k];
  for (const kernels::Offer& o : *offers) {
    if (!target.has(o.requires_isa)) continue;
    ++*offered;
    ir::Graph region = p.region.clone();
    for (size_t k = 0; k < o.inputs.size(); ++k) region.inputs[k]->type.layout = o.inputs[k];
    for (size_t k = 0; k < o.outputs.size(); ++k) region.outputs[k]->type.layout = o.outputs[k];
    kernels::Packed packed;
    const auto made =
        kernel.instantiate({&region, p.constant}, o.config, {constants, &packed, &target, nullptr, false});
    if (!made.ok()) out.push_back("{" + o.config + "} " + made.error().text() + " in " + ir::print(region));
  }
  return out;
}

// Of all kernels of an executor that are their own library.
void expect_made(std::string_view executor, const device::Target& target) {
  for (const kernels::Entry* e : kernels::entries()) {
    if (e->kernel.executor != executor || !e->kernel.library.empty()) continue;
    int64_t offered = 0;
    std::vector<std::string> wrong;
    std::vector<SampleProblem> own = own_problems(e->kernel);
    for (const auto* list : {&own, &common_problems()})
      for (const SampleProblem& p : *list)
        for (std::string& why : unmade(e->kernel, target, p, &offered)) wrong.push_back(std::move(why));
    EXPECT_GT(offered, 0) << e->kernel.name;
    EXPECT_TRUE(wrong.empty()) << e->kernel.name << ": " << wrong.size() << " of " << offered << " offers, the first "
                               << wrong.front();
  }
}

TEST(Offers, OfTheCpuCanAllBeMade) { expect_made("cpu", device::cpu_target(2, exec::libraries())); }

TEST(Offers, OfAGpuCanAllBeMade) { expect_made("cuda", some_gpu()); }

// The image of a convolution that its epilogue adds again, in every way in which it lies.
TEST(Offers, AnImageThatIsAddedAgainHasOneLayout) {
  auto g = ir::parse_graph(
      "graph { input x: f32[1,8,16,16]; input w: f32[8,8,3,3]; a = conv(x, w) {pads=[1,1,1,1]}; b = relu(a); "
      "y = add(b, x); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const SampleProblem p{std::move(*g), {false, true}};
  int64_t offered = 0;
  for (const kernels::Entry* e : kernels::entries())
    if (e->kernel.executor == "cpu")
      EXPECT_TRUE(unmade(e->kernel, device::cpu_target(2, exec::libraries()), p, &offered).empty()) << e->kernel.name;
  EXPECT_GT(offered, 1);
}

}  // namespace
}  // namespace peri::tune
