// A kernel for siblings of planted cost: neither it nor what stands behind one of the siblings shuts out the other.
#include <algorithm>

#include "tests/build/planted_products.hpp"

namespace peri::build {
namespace {

// x w for each of several w, nothing behind.
Result<std::vector<kernels::Offer>> offer_together(const kernels::Problem& p, const device::Target& target) {
  const ir::Graph& g = *p.graph;
  if (g.nodes.size() < 2 || g.outputs.size() != g.nodes.size() || !plain_matrices(p, g.nodes.size() + 1) ||
      std::any_of(g.nodes.begin(), g.nodes.end(),
                  [&](const ir::Node* n) { return n->op != "matmul" || n->in(0) != g.inputs[0]; }))
    return refused("another region");
  return std::vector<kernels::Offer>{kernels::row_major_offer(p, target)};
}
const kernels::Kernel kTogetherKernel =
    kernel("together", offer_together, make_product<kTogether>,
           "graph { input x: f32[2,3]; input v: f32[3,4]; input w: f32[3,5]; p = matmul(x, v); q = matmul(x, w); "
           "output p; output q }");

// A product with a relu behind it beside one without: what takes both products takes no relu.
constexpr std::string_view kProducts =
    "graph { input x: f32[24,8]; input v: f32[8,16]; input w: f32[8,12]; p = matmul(x, v); y = relu(p); q = matmul(x, "
    "w); output y; output q }";

TEST_F(Choice, AFastKernelForSiblingsIsNotShutOutByWhatStandsBehindOneOfThem) {
  const kernels::AddedKernel together(kTogetherKernel);
  costs(2, 2, 0.1);
  cost_ms[kTogether] = 0.1;
  const auto built = build_engine(options(), model(kProducts));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"together", "rest"}));
  EXPECT_TRUE(built->verdict.right());
  costs(0.1, 0.1, 2);
  cost_ms[kTogether] = 2;
  Options locked = options();
  locked.compile.lock = built->compiled.lock;
  const auto again = build_engine(locked, model(kProducts));
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(kernels_of(*again), (Names{"together", "rest"})) << "a lock keeps it";
  EXPECT_EQ(plan::lock_text(again->compiled.lock), plan::lock_text(built->compiled.lock));
}

TEST_F(Choice, ASlowKernelForSiblingsDoesNotShutOutFastOnesForEach) {
  const kernels::AddedKernel together(kTogetherKernel);
  costs(0.2, 0.2, 0.1);
  cost_ms[kTogether] = 2;
  const auto built = build_engine(options(), model(kProducts));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"long", "short"}));
}

TEST_F(Choice, TheRestOfASiblingCountsToo) {
  const kernels::AddedKernel together(kTogetherKernel);
  costs(0.5, 0.5, 2);
  cost_ms[kTogether] = 0.2;
  const auto built = build_engine(options(), model(kProducts));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"long", "short"}));
}

}  // namespace
}  // namespace peri::build
