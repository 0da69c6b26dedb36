// Inputs of a whole model lie where its ops can take them.
#include "judge/inputs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "judge/seeded.hpp"
#include "ops/entry.hpp"

namespace peri::judge {
namespace {

TEST(Inputs, RegionsOfInterestLieInTheirImages) {
  auto g = ir::parse_graph(
      "graph { input x: f32[batch,2,40,width]; input r: f32[20,5]; y = max_roi_pool(x, r) {pooled_shape=[3,4], "
      "spatial_scale=0.25}; output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  for (const int64_t batch : {1, 3})
    for (const auto how : {Integers::kIndices, Integers::kZero, Integers::kOne}) {
      const auto inputs = make_inputs(*g, {{"batch", batch}, {"width", 50}}, 7, how);
      ASSERT_TRUE(inputs.ok());
      std::vector<ops::RefTensor> in;
      for (const Tensor& t : *inputs) in.push_back(ops::to_ref(t));
      const auto out = ops::run_reference(*g, in);
      ASSERT_TRUE(out.ok()) << out.error().text();
      const auto filled = std::count_if((*out)[0].f.begin(), (*out)[0].f.end(), [](double v) { return v != 0; });
      EXPECT_GT(filled, std::ssize((*out)[0].f) / 2) << "bins that hold something";
    }
}

// What is compared on empty texts alone proves nothing about an operator of texts.
TEST(Inputs, TextsDifferAndHoldCharactersOfSeveralBytes) {
  auto g = ir::parse_graph("graph { input x: string[n]; y = identity(x); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const auto made = make_inputs(*g, {{"n", 200}}, 7);
  ASSERT_TRUE(made.ok()) << made.error().text();
  const auto seeded = random_input(plan::Port{"x", -1, DType::kString, {Dim(200)}}, {}, 7);
  ASSERT_TRUE(seeded.ok()) << seeded.error().text();
  for (const Tensor* t : {&(*made)[0], &*seeded}) {
    const std::vector<std::string>& texts = t->string_values();
    EXPECT_GT(std::set<std::string>(texts.begin(), texts.end()).size(), 50U);
    EXPECT_GT(std::count(texts.begin(), texts.end(), ""), 0);
    EXPECT_LT(std::count(texts.begin(), texts.end(), ""), 60);
    EXPECT_TRUE(std::any_of(texts.begin(), texts.end(), [](const std::string& s) {
      return std::any_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
    }));
  }
}

TEST(Inputs, TextsThatAreReadAsNumbersAreNumbers) {
  auto g = ir::parse_graph(
      "graph { input x: string[n]; input w: string[n]; m = identity(x); y = cast(m) {to=1}; "
      "output y; output w }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  ASSERT_TRUE(ops::infer_graph(*g).ok());
  const auto made = make_inputs(*g, {{"n", 200}}, 7);
  ASSERT_TRUE(made.ok()) << made.error().text();
  const auto number = [](const std::string& s) {
    return !s.empty() && s.find_first_not_of("0123456789") == std::string::npos;
  };
  const std::vector<std::string>&x = (*made)[0].string_values(), &w = (*made)[1].string_values();
  EXPECT_TRUE(std::all_of(x.begin(), x.end(), number));
  EXPECT_FALSE(std::all_of(w.begin(), w.end(), number));
}

}  // namespace
}  // namespace peri::judge
