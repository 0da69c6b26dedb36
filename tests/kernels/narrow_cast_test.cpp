// float64 into 16 bits: rounded once, also a hair beside a tie, which float32 no longer shows.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/dtype.hpp"
#include "base/rng.hpp"
#include "kernels/cpu/typed/loops.hpp"
#include "tests/kernels/runs_here.hpp"

namespace peri::kernels::cpu::typed {
namespace {

using Find = Loop (*)(Op, Elem, Elem);
std::vector<Find> all_finds() {
  std::vector<Find> out;
  if (runs_here(Isa::kAvx2)) out.push_back(avx2::find);
  if (runs_here(Isa::kAvx512)) out.push_back(avx512::find);
  return out;
}

// Ties of the type at many magnitudes, each with neighbours that are as near as float64 and as float32 can tell.
std::vector<double> numbers(DType type) {
  const double u = unit_roundoff(type);
  std::vector<double> out = {0.0,    -0.0,    INFINITY, -INFINITY, std::nan(""), 1e-300,   -1e-300, 1e300,
                             -1e300, 65519.9, 65520.0,  65504.0,   3.39e38,      3.397e38, 3.5e38,  0x1p-149};
  Rng rng(3);
  for (int k = 0; k < 20000; ++k) {
    const double start = round_to(type, std::exp(30 * (rng.uniform() - 0.5)) * (rng.below(2) == 0 ? 1 : -1));
    const double tie =
        start * (1 + u / std::exp2(std::log2(std::fabs(start)) - std::floor(std::log2(std::fabs(start)))));
    for (const double beside : {0.0, 0x1p-50, -0x1p-50, 0x1p-24, -0x1p-24, 0x1p-30}) out.push_back(tie * (1 + beside));
  }
  return out;
}

TEST(NarrowCast, Float64IsRoundedOnce) {
  for (const auto& [type, elem] : {std::pair{DType::kF16, Elem::kF16}, std::pair{DType::kBF16, Elem::kBF16}}) {
    const std::vector<double> x = numbers(type);
    int ties = 0;  // that two roundings get wrong
    for (const Find find : all_finds()) {
      const Loop loop = find(Op::kCast, Elem::kF64, elem);
      ASSERT_NE(loop, nullptr);
      std::vector<uint16_t> y(x.size());
      loop({x.data(), nullptr, nullptr, y.data(), static_cast<int64_t>(x.size()), nullptr});
      for (size_t k = 0; k < x.size(); ++k) {
        const double got = type == DType::kF16 ? f16_to_f32(y[k]) : bf16_to_f32(y[k]), want = round_to(type, x[k]);
        ties += round_to(type, static_cast<double>(static_cast<float>(x[k]))) != want && !std::isnan(want);
        if (std::isnan(want))
          EXPECT_TRUE(std::isnan(got));
        else
          ASSERT_EQ(got, want) << x[k];
      }
    }
    EXPECT_GT(ties, 0) << "no number shows a second rounding";
  }
}

}  // namespace
}  // namespace peri::kernels::cpu::typed
