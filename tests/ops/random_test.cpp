// Random numbers: the same for the same seed, others for another or for another name, spread as they should be.
#include <algorithm>

#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

std::vector<double> drawn(const std::string& node, std::vector<int64_t> dims = {200, 100}) {
  RefTensor x = make_ref(DType::kF32, std::move(dims));
  for (double& v : x.f) v = 0.25;
  const RefTensor y = run_text("graph { input x: f32[" + std::to_string(x.dims[0]) + "," + std::to_string(x.dims[1]) +
                                   "]; y = " + node + "; output y }",
                               {&x, 1})[0];
  return y.floating() ? y.f : std::vector<double>(y.i.begin(), y.i.end());
}
double mean_of(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return sum / static_cast<double>(v.size());
}
double deviation_of(const std::vector<double>& v) {
  const double mean = mean_of(v);
  double sum = 0;
  for (const double x : v) sum += (x - mean) * (x - mean);
  return std::sqrt(sum / static_cast<double>(v.size()));
}
// Of neighbours.
double correlation_of(const std::vector<double>& v, size_t apart) {
  const double mean = mean_of(v), deviation = deviation_of(v);
  double sum = 0;
  for (size_t k = apart; k < v.size(); ++k) sum += (v[k] - mean) * (v[k - apart] - mean);
  return sum / static_cast<double>(v.size()) / deviation / deviation;
}

TEST(Random, SpreadsAsItShould) {
  const std::vector<double> n = drawn("random_normal_like(x) {seed=3.0, mean=2.0, scale=0.5}"),
                            u = drawn("random_uniform_like(x) {seed=3.0, low=-1.0, high=3.0}"),
                            b = drawn("bernoulli(x) {seed=3.0}");
  EXPECT_NEAR(mean_of(n), 2, 0.02);
  EXPECT_NEAR(deviation_of(n), 0.5, 0.02);
  EXPECT_NEAR(mean_of(u), 1, 0.04);
  EXPECT_NEAR(deviation_of(u), 4 / std::sqrt(12.0), 0.03);
  EXPECT_GE(*std::min_element(u.begin(), u.end()), -1);
  EXPECT_LT(*std::max_element(u.begin(), u.end()), 3);
  EXPECT_NEAR(mean_of(b), 0.25, 0.02);
  EXPECT_TRUE(std::all_of(b.begin(), b.end(), [](double v) { return v == 0 || v == 1; }));
  for (const size_t apart : {1, 2, 100})
    for (const auto& v : {n, u, b}) EXPECT_NEAR(correlation_of(v, apart), 0, 0.04) << apart;
}

TEST(Random, ClassesComeAsOftenAsTheirProbabilitiesSay) {
  const RefTensor x = floats({1, 4}, {std::log(0.1), std::log(0.4), -INFINITY, std::log(0.5)});
  const RefTensor y = run_text(
      "graph { input x: f32[1,4]; y = multinomial(x) {sample_size=20000, seed=1.0, dtype=14}; output y }", {&x, 1})[0];
  ASSERT_EQ(y.dtype, DType::kI64);
  std::vector<double> share(4);
  for (const int64_t k : y.i) share.at(static_cast<size_t>(k)) += 1 / 20000.0;
  EXPECT_NEAR(share[0], 0.1, 0.02);
  EXPECT_NEAR(share[1], 0.4, 0.02);
  EXPECT_EQ(share[2], 0);
  EXPECT_NEAR(share[3], 0.5, 0.02);
}

TEST(Random, SeedsAndNamesDecide) {
  const auto one = drawn("random_normal_like(x) {seed=1.0}");
  EXPECT_EQ(one, drawn("random_normal_like(x) {seed=1.0}"));
  EXPECT_NE(one, drawn("random_normal_like(x) {seed=1.5}"));
  EXPECT_LT(std::fabs(correlation_of(one, 1)), 0.04);
  // What the importer calls: a node without a seed goes by its result's name, one with a seed by that alone.
  ir::Graph g;
  ir::Value* const x = g.add_input("x", ir::Type(DType::kF32, Shape{Dim(4)}));
  ir::Node* const a = g.add("random_normal_like", {x}, {}, "a", 1);
  ir::Node* const b = g.add("random_normal_like", {x}, {}, "b", 1);
  ir::Node* const c = g.add("random_normal_like", {x}, {{"seed", 1.0}}, "c", 1);
  for (ir::Node* n : {a, b, c}) ASSERT_TRUE(find(n->op)->upgrade(g, *n, 22).ok());
  EXPECT_NE(a->i("stream"), b->i("stream"));
  EXPECT_FALSE(c->has("stream"));
}

TEST(Random, Refusals) {
  EXPECT_NE(refusal("graph { input x: i64[3]; y = random_normal_like(x); output y }").find("dtype"), std::string::npos);
  EXPECT_NE(refusal("graph { input x: f32[3]; y = multinomial(x); output y }").find("row"), std::string::npos);
  EXPECT_NE(refusal("graph { input x: f32[3,0]; y = multinomial(x); output y }").find("class"), std::string::npos);
  EXPECT_NE(refusal("graph { y = random_uniform() {shape=[-1]}; output y }").find("negative"), std::string::npos);
}

}  // namespace
}  // namespace peri::ops
