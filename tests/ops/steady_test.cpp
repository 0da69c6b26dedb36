// Sums of few distinct values round alike: a plain chain of float32 additions stays within the radius all the same, in
// every op made of products, while one addend that is missing or counted twice does not.
#include "tests/ops/world.hpp"

#include "ops/reference/dense.hpp"

namespace peri::ops {
namespace {

constexpr double kU = 5.9604644775390625e-8;  // of float32: 2^-24

RefTensor filled(std::vector<int64_t> dims, const std::function<double(int64_t)>& value) {
  RefTensor t = make_ref(DType::kF32, std::move(dims));
  for (size_t k = 0; k < t.f.size(); ++k)
    t.f[k] = static_cast<double>(static_cast<float>(value(static_cast<int64_t>(k))));
  return t;
}

float chain(const RefTensor& a, const RefTensor& b, int64_t step) {
  float sum = 0;
  for (size_t k = 0; k < a.f.size(); ++k)
    sum = std::fma(static_cast<float>(a.f[k]), static_cast<float>(b.f[k * static_cast<size_t>(step)]), sum);
  return sum;
}

// Steps of 0.05 as a quantised activation has them: multiples of one number that float32 has not.
RefTensor steps(std::vector<int64_t> dims, int64_t of) {
  return filled(std::move(dims), [of](int64_t k) { return 0.05 * static_cast<double>(k * 7 % of); });
}

TEST(SteadySums, AChainStaysWithinTheRadius) {
  for (const int64_t depth : {300, 1000, 2405, 6000})
    for (const int64_t of : {1, 2, 4}) {
      const RefTensor a = of == 1 ? filled({1, depth}, [](int64_t) { return 0.1; }) : steps({1, depth}, of), b = [&] {
        RefTensor t = a;
        t.dims = {depth, 1};
        return t;
      }();
      auto g =
          ir::parse_graph(format("graph { input a: f32[1,%lld]; input b: f32[%lld,1]; y = matmul(a, b); output y }",
                                 static_cast<long long>(depth), static_cast<long long>(depth)));
      ASSERT_TRUE(g.ok() && infer_graph(*g).ok());
      for (const bool at_positions : {false, true}) {
        RefOptions options;
        options.u = kU;
        if (at_positions) options.positions = {0};
        const auto y = run_reference(*g, std::vector<RefTensor>{a, b}, options);
        ASSERT_TRUE(y.ok());
        const double want = (*y)[0].f[0], radius = (*y)[0].r(0);
        EXPECT_LE(std::fabs(static_cast<double>(chain(a, b, 1)) - want), radius) << depth << " steps of " << of;
        if (depth <= 2405 && of > 1) EXPECT_GT(0.05 * 0.05, radius) << "the least addend would be missed: " << depth;
      }
    }
}

TEST(SteadySums, AreNothingBesideSumsOfBothSigns) {
  Rng rng(3);
  for (const int64_t depth : {64, 1024, 8192}) {
    ProductSum sum;
    for (int64_t k = 0; k < depth; ++k) sum.add(rng.normal(), 0, rng.normal(), 0);
    EXPECT_LT(steady_radius(kU, depth, sum.value), 0.5 * sum_radius(kU, depth, sum.magnitude)) << depth;
  }
}

}  // namespace
}  // namespace peri::ops
