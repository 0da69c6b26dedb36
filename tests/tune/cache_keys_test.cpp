// A key of the timing cache holds for sources, not for the program that was made from them.
#include "tune/cache_keys.hpp"

#include <gtest/gtest.h>

#include "kernels/source_key.hpp"
#include "ops/source_key.hpp"
#include "tune/judge_key.hpp"

namespace peri::tune {
namespace {

TEST(CacheKeys, NameTheSourcesOfKernelAndDefinitions) {
  auto g = ir::parse_graph("graph { input x: f32[7,24]; input r: f32[7,24]; y = add(x, r); output y }");
  auto h = ir::parse_graph("graph { input x: f32[7,24]; y = relu(x); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok() && h.ok() && ops::infer_graph(*h).ok());
  const Candidate c{kernels::find("elementwise"), {}};
  const std::string key = candidate_key(c, *g);
  EXPECT_NE(key.find(kernels::source_key(*c.kernel)), std::string::npos) << key;
  EXPECT_EQ(key.find("program"), std::string::npos) << key;
  EXPECT_NE(key, candidate_key(c, *h)) << "add and relu are defined in files of their own";
  EXPECT_EQ(ops::source_key("add").size(), 16u);
  EXPECT_EQ(ops::source_key("no_such_op"), "");
  EXPECT_NE(samples_key(*c.kernel, "").find(kernels::source_key(*c.kernel)), std::string::npos);
}

TEST(CacheKeys, AnExecutorsSourcesAreItsOwn) {
  EXPECT_EQ(judge_key("cpu").size(), 16u);
  EXPECT_EQ(judge_key("cuda").size(), 16u);
  EXPECT_NE(judge_key("cpu"), judge_key("cuda"));
  EXPECT_EQ(judge_key("nowhere"), "");
  EXPECT_EQ(crossing_key().size(), 16u);
  const ir::Graph g;
  const kernels::Kernel* kernel = kernels::find("elementwise");
  EXPECT_NE(candidate_key({kernel, {}}, g).find("judge " + std::string(judge_key(kernel->executor))),
            std::string::npos);
  kernels::Kernel elsewhere = *kernel;
  elsewhere.executor = "nowhere";
  EXPECT_NE(candidate_key({&elsewhere, {}}, g).find("judge of program "), std::string::npos);
}

TEST(CacheKeys, AKernelWithoutSourcesHoldsForThisProgramOnly) {
  kernels::Kernel kernel = *kernels::find("elementwise");
  const kernels::AddedKernel added(kernel);
  const ir::Graph g;
  EXPECT_NE(candidate_key({&kernel, {}}, g).find("of program "), std::string::npos);
}

}  // namespace
}  // namespace peri::tune
