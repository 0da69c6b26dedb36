// Fast transforms against sums of their definition.
#include "ops/reference/fourier.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/rng.hpp"
#include "ops/reference/spectrum.hpp"

namespace peri::ops {
namespace {

using Complex = std::complex<double>;

std::vector<Complex> by_definition(const std::vector<Complex>& x, bool inverse) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<Complex> out;
  for (int64_t bin = 0; bin < n; ++bin) {
    long double re = 0, im = 0;
    for (int64_t k = 0; k < n; ++k) {
      const long double angle = (inverse ? 2 : -2) * std::numbers::pi_v<long double> *
                                static_cast<long double>(k * bin % n) / static_cast<long double>(n);
      const Complex& v = x[static_cast<size_t>(k)];
      re += v.real() * std::cos(angle) - v.imag() * std::sin(angle);
      im += v.real() * std::sin(angle) + v.imag() * std::cos(angle);
    }
    out.emplace_back(static_cast<double>(re), static_cast<double>(im));
  }
  return out;
}

TEST(Fourier, IsTheSumOfEveryLength) {
  Rng rng(7);
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 8, 12, 64, 65, 67, 97, 128, 210, 500, 512, 1009})
    for (const bool inverse : {false, true})
      for (const double magnitude : {1e-6, 1.0, 1e6}) {
        std::vector<Complex> x;
        double all = 0;
        for (int64_t k = 0; k < n; ++k) {
          x.emplace_back(magnitude * rng.normal(), magnitude * rng.normal());
          all += std::norm(x.back());
        }
        const std::vector<Complex> want = by_definition(x, inverse);
        Fourier(n, inverse).run(x);
        for (size_t k = 0; k < x.size(); ++k)
          ASSERT_LE(std::abs(x[k] - want[k]), 4e-15 * std::sqrt(all) * (1 + std::log2(n))) << n << " at " << k;
      }
}

TEST(Fourier, RadiiHoldWhatTheInputsMayBe) {
  const auto graph = ir::parse_graph("graph { input x: f32[2]; y = relu(x); output y }");
  ASSERT_TRUE(graph.ok());
  Rng rng(11);
  for (const int64_t n : {16, 100}) {  // by the definition, and by a fast transform
    const RefCall call{*graph->nodes.front(), {}, {}, {}, 0x1p-24};
    std::vector<Near> re, im, moved_re, moved_im;
    for (int64_t k = 0; k < n; ++k) {
      re.push_back({rng.normal(), 1e-3});
      im.push_back({rng.normal(), 1e-3});
      moved_re.push_back({re.back().v + (rng.below(2) ? 1e-3 : -1e-3), 0});
      moved_im.push_back({im.back().v + (rng.below(2) ? 1e-3 : -1e-3), 0});
    }
    const Spectrum spectrum(n, false);
    const std::vector<Near> a = spectrum.of(call, re, im, n, 1), b = spectrum.of(call, moved_re, moved_im, n, 1);
    for (size_t k = 0; k < a.size(); ++k) EXPECT_LE(std::fabs(a[k].v - b[k].v), a[k].r) << n << " at " << k;
    for (const Near& v : a) EXPECT_LT(v.r, 0.01 * static_cast<double>(n));
  }
}

}  // namespace
}  // namespace peri::ops
