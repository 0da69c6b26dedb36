// Planning offers nothing that making refuses: every offer of every kernel, on every sample that it takes, becomes an
// instance of an engine in the layouts that it asked for. Without it a build that tries nothing fails as it loads. An
// instance with its weights asks a session for the memory, tasks and launches that were planned without them.
#include <gtest/gtest.h>

#include "device/target.hpp"
#include "exec/entry.hpp"
#include "kernels/entry.hpp"
#include "tests/tune/cuda_cases.hpp"
#include "tune/arguments.hpp"
#include "tune/sample_regions.hpp"

namespace peri::tune {
namespace {

struct Count {
  int64_t offered = 0, planned = 0;  // offers; those with needs
};

// The offers of a kernel for a problem that cannot be made, or need other things than planned, in words; counts all.
std::vector<std::string> unmade(const kernels::Kernel& kernel, const device::Target& target, const SampleProblem& p,
                                Count* count) {
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
    ++count->offered;
    const ir::Graph region = kernels::placed({&p.region, p.constant}, o);
    kernels::Packed packed;
    const auto made =
        kernel.instantiate({&region, p.constant}, o.config, {constants, &packed, &target, nullptr, false});
    const auto where = [&] { return " {" + o.config + "} in " + ir::print(region); };
    if (!made.ok()) {
      out.push_back(made.error().text() + where());
      continue;
    }
    const auto needs = kernels::needs_of(kernel, {&p.region, p.constant}, o, target);
    count->planned += needs.ok();
    if (needs.ok() && !(*needs == (*made)->needs()))
      out.push_back("planned " + kernels::needs_text(*needs) + ", made " + kernels::needs_text((*made)->needs()) +
                    where());
    // What only the run's weights decide is refused with that reason.
    if (!needs.ok() && needs.error().kind != ErrorKind::kRefused) out.push_back(needs.error().text() + where());
  }
  return out;
}

// Of all kernels of an executor that are their own library.
void expect_made(std::string_view executor, const device::Target& target) {
  for (const kernels::Entry* e : kernels::entries()) {
    if (e->kernel.executor != executor || !e->kernel.library.empty()) continue;
    Count count;
    std::vector<std::string> wrong;
    std::vector<SampleProblem> own = own_problems(e->kernel);
    for (const auto* list : {&own, &common_problems()})
      for (const SampleProblem& p : *list)
        for (std::string& why : unmade(e->kernel, target, p, &count)) wrong.push_back(std::move(why));
    EXPECT_GT(count.offered, 0) << e->kernel.name;
    EXPECT_EQ(count.planned > 0, e->kernel.provider == "peri") << e->kernel.name;
    EXPECT_TRUE(wrong.empty()) << e->kernel.name << ": " << wrong.size() << " of " << count.offered
                               << " offers, the first " << wrong.front();
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
  Count count;
  for (const kernels::Entry* e : kernels::entries())
    if (e->kernel.executor == "cpu")
      EXPECT_TRUE(unmade(e->kernel, device::cpu_target(2, exec::libraries()), p, &count).empty()) << e->kernel.name;
  EXPECT_GT(count.offered, 1);
}

}  // namespace
}  // namespace peri::tune
