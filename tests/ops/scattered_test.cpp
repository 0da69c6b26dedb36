// Elements of a product asked for one by one are those of the whole product, whatever the strides and threads.
#include "ops/reference/scattered.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "base/rng.hpp"

namespace peri::ops {
namespace {

struct Sums {
  double sum, magnitude;
  bool operator==(const Sums&) const = default;
};

std::map<int64_t, Sums> scattered(const std::vector<ScatteredSum>& elements, int64_t k, const std::vector<double>& a,
                                  int64_t a_step, const std::vector<double>& b, int64_t b_step, int threads) {
  std::map<int64_t, Sums> out;
  std::mutex mutex;
  scattered_sums(elements, k, a.data(), a_step, b.data(), b_step, threads, [&](int64_t to, double s, double m) {
    const std::lock_guard<std::mutex> lock(mutex);
    EXPECT_TRUE(out.emplace(to, Sums{s, m}).second) << "taken twice: " << to;
  });
  return out;
}

TEST(ScatteredSums, EqualTheWholeProduct) {
  Rng rng(11);
  for (int round = 0; round < 200; ++round) {
    const int64_t m = 1 + static_cast<int64_t>(rng.below(9)), n = 1 + static_cast<int64_t>(rng.below(40)),
                  k = 1 + static_cast<int64_t>(rng.below(70));
    const bool ta = rng.below(2), tb = rng.below(2);
    std::vector<double> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
    for (double& v : a) v = 2 * rng.uniform() - 1;
    for (double& v : b) v = 2 * rng.uniform() - 1;
    const int64_t a_row = ta ? 1 : k, a_step = ta ? m : 1, b_column = tb ? k : 1, b_step = tb ? 1 : n;
    std::vector<ScatteredSum> elements;
    for (int64_t at = 0; at < m * n; ++at)
      if (rng.below(3)) elements.push_back({at / n * a_row, at % n * b_column, at});
    const auto got = scattered(elements, k, a, a_step, b, b_step, 3);
    ASSERT_EQ(got.size(), elements.size());
    EXPECT_EQ(got, scattered(elements, k, a, a_step, b, b_step, 1)) << "the same bits on one thread";
    for (const ScatteredSum& e : elements) {
      double sum = 0, magnitude = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double v = a[static_cast<size_t>(e.a + p * a_step)] * b[static_cast<size_t>(e.b + p * b_step)];
        sum += v;
        magnitude += std::fabs(v);
      }
      const double allowed = 1e-14 * (magnitude + 1);
      EXPECT_NEAR(got.at(e.to).sum, sum, allowed);
      EXPECT_NEAR(got.at(e.to).magnitude, magnitude, allowed);
    }
  }
}

TEST(ScatteredSums, NothingAskedForIsNothingRead) { EXPECT_TRUE(scattered({}, 5, {}, 1, {}, 1, 2).empty()); }

}  // namespace
}  // namespace peri::ops
