// Row kernels against double arithmetic: shapes with tails, masks, magnitudes, specials, aliases, any order of tasks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/rows/rows.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/kernels/runs_here.hpp"

namespace peri::kernels::cpu::rows {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (runs_here(isa)) list.push_back(isa);
  }
  return list;
}

template <class Shape, class Args>
void run_all(const Shape& shape, const Args& args, Isa isa, bool backwards = false) {
  const auto plan = make_plan(shape, isa);
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  const int64_t n = task_count(*plan);
  for (int64_t k = 0; k < n; ++k) run_task(*plan, args, backwards ? n - 1 - k : k);
}

void expect_near(float got, double want, double slack, int64_t at) {
  ASSERT_TRUE(std::abs(static_cast<double>(got) - want) <= slack) << "[" << at << "] is " << got << ", not " << want;
}

TEST(RowsTest, SoftmaxOverAnyAxis) {
  struct Row {
    int64_t outer, axis, inner;
  };
  for (Isa isa : isas()) {
    for (const Row& r : {Row{1, 1, 1}, Row{3, 7, 1}, Row{5, 128, 1}, Row{2, 1000, 1}, Row{300, 130, 1}, Row{1, 5000, 1},
                         Row{2, 9, 5}, Row{3, 200, 77}, Row{2, 21, 1000}}) {
      for (const float magnitude : {1.0f, 60.0f, 1e-3f}) {
        for (const bool log : {false, true}) {
          const int64_t n = r.outer * r.axis * r.inner;
          const Guarded x(n), y(n), z(n);
          x.randomise(5, magnitude);
          SoftmaxShape s;
          s.outer = r.outer;
          s.axis = r.axis;
          s.inner = r.inner;
          s.log = log;
          s.scale = 0.75f;
          run_all(s, SoftmaxArgs{x.data(), nullptr, y.data()}, isa);
          std::copy(x.begin(), x.end(), z.begin());
          run_all(s, SoftmaxArgs{z.data(), nullptr, z.data()}, isa, true);
          ASSERT_TRUE(std::equal(y.begin(), y.end(), z.begin())) << "in place, backwards";
          for (int64_t o = 0; o < r.outer; ++o) {
            for (int64_t i = 0; i < r.inner; ++i) {
              const auto at = [&](int64_t k) { return (o * r.axis + k) * r.inner + i; };
              double most = -INFINITY, sum = 0;
              for (int64_t k = 0; k < r.axis; ++k) most = std::max(most, 0.75 * static_cast<double>(x[at(k)]));
              for (int64_t k = 0; k < r.axis; ++k) sum += std::exp(0.75 * static_cast<double>(x[at(k)]) - most);
              for (int64_t k = 0; k < r.axis; ++k) {
                const double v = 0.75 * static_cast<double>(x[at(k)]) - most, soft = std::exp(v) / sum;
                const double u = 0x1p-24 * (8 + 2 * std::abs(v) + 2 * std::abs(most));
                expect_near(y[at(k)], log ? v - std::log(sum) : soft, log ? u * 2 : u * soft * 2 + 1e-38, at(k));
              }
            }
          }
        }
      }
    }
  }
}

TEST(RowsTest, SoftmaxWithMasks) {
  const int64_t b = 2, h = 3, q = 5, n = 37;
  for (Isa isa : isas()) {
    const Guarded x(b * h * q * n), y(b * h * q * n), mask(b * n);
    x.randomise(1, 3);
    mask.randomise(2, 1);
    for (int64_t i = 0; i < b * n; ++i) mask[i] = mask[i] > 0 ? 0 : i % 2 == 0 ? -kInf : -10000;
    SoftmaxShape s;
    s.outer = b * h * q;
    s.axis = n;
    s.masked = true;
    s.mask_dims[0] = b;
    s.mask_dims[1] = h;
    s.mask_dims[2] = q;
    s.mask_strides[0] = n;
    run_all(s, SoftmaxArgs{x.data(), mask.data(), y.data()}, isa);
    for (int64_t r = 0; r < s.outer; ++r) {
      const int64_t m = r / (h * q) * n;
      double most = -INFINITY, sum = 0;
      for (int64_t k = 0; k < n; ++k) most = std::max(most, static_cast<double>(x[r * n + k] + mask[m + k]));
      for (int64_t k = 0; k < n; ++k) sum += std::exp(static_cast<double>(x[r * n + k] + mask[m + k]) - most);
      for (int64_t k = 0; k < n; ++k)
        expect_near(y[r * n + k], std::exp(static_cast<double>(x[r * n + k] + mask[m + k]) - most) / sum, 2e-6,
                    r * n + k);
    }
    SoftmaxShape bad = s;
    bad.mask_dims[2] = 4;
    EXPECT_FALSE(make_plan(bad, isa).ok());
  }
}

TEST(RowsTest, SoftmaxOfSpecials) {
  for (Isa isa : isas()) {
    const Guarded x(20), y(20);
    SoftmaxShape s;
    s.axis = 20;
    x.fill(-kInf);
    run_all(s, SoftmaxArgs{x.data(), nullptr, y.data()}, isa);
    for (float v : y) EXPECT_TRUE(std::isnan(v));
    x[3] = 1;
    run_all(s, SoftmaxArgs{x.data(), nullptr, y.data()}, isa);
    for (int64_t k = 0; k < 20; ++k) EXPECT_EQ(y[k], k == 3 ? 1.0f : 0.0f);
    x[18] = NAN;
    run_all(s, SoftmaxArgs{x.data(), nullptr, y.data()}, isa);
    for (float v : y) EXPECT_TRUE(std::isnan(v));
  }
}

TEST(RowsTest, LayerAndRmsNorm) {
  for (Isa isa : isas()) {
    for (const int64_t n : {1, 5, 64, 100, 768, 5000}) {
      for (const int64_t rows : {1, 3, 70}) {
        for (int variant = 0; variant < 8; ++variant) {
          const Guarded x(rows * n), res(rows * n), rb(n), g(n), b(n), y(rows * n), sum(rows * n), mean(rows),
              inv(rows);
          x.randomise(1, variant & 1 ? 100 : 1);
          if (variant & 1) {
            for (float& v : x) v += 500;  // a mean far from zero
          }
          res.randomise(2);
          rb.randomise(3);
          g.randomise(4);
          b.randomise(5);
          const bool residual = variant & 2, rms = variant & 4;
          NormShape s;
          s.norm = rms ? Norm::kRms : Norm::kLayer;
          s.rows = rows;
          s.n = n;
          s.epsilon = 1e-5f;
          NormArgs args{x.data(),
                        residual ? res.data() : nullptr,
                        residual ? rb.data() : nullptr,
                        g.data(),
                        b.data(),
                        y.data(),
                        residual ? sum.data() : nullptr,
                        mean.data(),
                        inv.data()};
          run_all(s, args, isa);
          for (int64_t r = 0; r < rows; ++r) {
            std::vector<double> v(static_cast<size_t>(n));
            double m = 0, q = 0;
            for (int64_t k = 0; k < n; ++k) {
              const float f = residual ? x[r * n + k] + res[r * n + k] + rb[k] : x[r * n + k];
              v[static_cast<size_t>(k)] = static_cast<double>(f);
              m += static_cast<double>(f);
            }
            m = rms ? 0 : m / static_cast<double>(n);
            for (double d : v) q += (d - m) * (d - m);
            const double i = 1 / std::sqrt(q / static_cast<double>(n) + static_cast<double>(s.epsilon));
            for (int64_t k = 0; k < n; ++k) {
              const double d = v[static_cast<size_t>(k)];
              const double want = (d - m) * i * static_cast<double>(g[k]) + static_cast<double>(b[k]);
              expect_near(y[r * n + k], want, 0x1p-24 * (16 + 2 * std::abs(m) * i + 16 * std::abs((d - m) * i)), k);
              if (residual) expect_near(sum[r * n + k], d, 0, k);
            }
            expect_near(mean[r], m, rms ? 0 : 0x1p-22 * (std::abs(m) + 1 / i), r);
            expect_near(inv[r], i, 1e-5 * i, r);
          }
        }
      }
    }
  }
}

TEST(RowsTest, GroupNorm) {
  for (Isa isa : isas()) {
    for (const int64_t groups : {1, 2, 6}) {
      const int64_t batch = 2, channels = 6, spatial = 53;
      const Guarded x(batch * channels * spatial), g(channels), b(channels), y(batch * channels * spatial);
      x.randomise(1);
      g.randomise(2);
      b.randomise(3);
      GroupNormShape s;
      s.batch = batch;
      s.channels = channels;
      s.spatial = spatial;
      s.groups = groups;
      run_all(s, GroupNormArgs{x.data(), g.data(), b.data(), y.data()}, isa);
      const int64_t n = channels / groups * spatial;
      for (int64_t k = 0; k < batch * groups; ++k) {
        double m = 0, q = 0;
        for (int64_t i = 0; i < n; ++i) m += static_cast<double>(x[k * n + i]);
        m /= static_cast<double>(n);
        for (int64_t i = 0; i < n; ++i)
          q += (static_cast<double>(x[k * n + i]) - m) * (static_cast<double>(x[k * n + i]) - m);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t c = (k % groups) * (channels / groups) + i / spatial;
          const double want = (static_cast<double>(x[k * n + i]) - m) / std::sqrt(q / static_cast<double>(n) + 1e-5) *
                                  static_cast<double>(g[c]) +
                              static_cast<double>(b[c]);
          expect_near(y[k * n + i], want, 3e-6, i);
        }
      }
    }
    GroupNormShape bad;
    bad.channels = 5;
    bad.groups = 2;
    EXPECT_FALSE(make_plan(bad, isa).ok());
  }
}

TEST(RowsTest, JoinsOverTheMiddleDim) {
  for (Isa isa : isas()) {
    for (const Join join : {Join::kSum, Join::kMean, Join::kMax, Join::kMin}) {
      for (const bool weighted : {false, true}) {
        if (weighted && (join == Join::kMax || join == Join::kMin)) continue;
        for (const int64_t inner : {1, 5, 64, 100, 384}) {
          const int64_t outer = 3, axis = 130;
          const Guarded x(outer * axis * inner), w(outer * axis), y(outer * inner);
          x.randomise(1);
          w.randomise(2);
          for (float& v : w) v = v > 0 ? 1 : 0;
          for (int64_t k = 0; k < axis; ++k) w[k] = 0;  // a row without any weight
          JoinShape s;
          s.join = join;
          s.outer = outer;
          s.axis = axis;
          s.inner = inner;
          s.weighted = weighted;
          run_all(s, JoinArgs{x.data(), w.data(), y.data()}, isa);
          for (int64_t o = 0; o < outer; ++o) {
            for (int64_t i = 0; i < inner; ++i) {
              double sum = 0, weight = 0, most = -INFINITY, least = INFINITY;
              for (int64_t k = 0; k < axis; ++k) {
                const double v = static_cast<double>(x[(o * axis + k) * inner + i]),
                             f = weighted ? static_cast<double>(w[o * axis + k]) : 1;
                sum += v * f;
                weight += f;
                most = std::max(most, v);
                least = std::min(least, v);
              }
              const double want = join == Join::kSum    ? sum
                                  : join == Join::kMean ? sum / std::max(weight, 1e-9)
                                  : join == Join::kMax  ? most
                                                        : least;
              expect_near(y[o * inner + i], want, 1e-5 * (join == Join::kSum ? 10 : 1), i);
            }
          }
        }
      }
    }
  }
}

TEST(RowsTest, BadShapesAreRefusedAndEmptyOnesHaveNoTask) {
  SoftmaxShape s;
  s.axis = -1;
  EXPECT_FALSE(make_plan(s, Isa::kAvx2).ok());
  s.axis = int64_t{1} << 40, s.outer = int64_t{1} << 40;
  EXPECT_FALSE(make_plan(s, Isa::kAvx2).ok());
  s.axis = 5;
  s.outer = 0;
  EXPECT_EQ(task_count(*make_plan(s, Isa::kAvx2)), 0);
  NormShape n;
  n.rows = -5;
  EXPECT_FALSE(make_plan(n, Isa::kAvx2).ok());
  JoinShape j;
  j.axis = 0;
  EXPECT_FALSE(make_plan(j, Isa::kAvx2).ok());
}

}  // namespace
}  // namespace peri::kernels::cpu::rows
