// Each function of a cell beside its definition in float64. Numbers as two bytes each: what they stand for lies within
// half a step of them, whatever their size; what is not finite says so; sums of products with bytes are those of the
// numbers that they stand for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.hpp"
#include "kernels/cpu/cell/cell.hpp"
#include "kernels/cpu/cell/words.hpp"
#include "kernels/cpu/integer/product.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/kernels/runs_here.hpp"

namespace peri::kernels::cpu::cell {
namespace {

struct Loops {
  decltype(&avx2::split) split;
  decltype(&avx2::join) join;
  decltype(&avx2::run) run;
};
std::vector<Loops> all_loops() {
  std::vector<Loops> out;
  if (runs_here(Isa::kAvx2)) out.push_back({&avx2::split, &avx2::join, &avx2::run});
  if (runs_here(Isa::kAvx512)) out.push_back({&avx512::split, &avx512::join, &avx512::run});
  return out;
}

struct Halves {
  explicit Halves(int64_t n) : high(static_cast<size_t>((n + 15) / 16 * 16)), low(high) {}
  std::vector<uint8_t> high, low;
  int64_t at(int64_t j) const { return 256 * high[static_cast<size_t>(j)] + low[static_cast<size_t>(j)] - 32768; }
};

TEST(Cell, TwoBytesLieWithinHalfAStep) {
  for (const Loops& loops : all_loops())
    for (const int64_t n : {1, 7, 8, 16, 17, 33, 128, 301})
      for (const float size : {1e-25F, 1e-3F, 1.0F, 700.0F, 1e30F, 3e38F}) {
        const Guarded x(n);
        x.randomise(static_cast<uint64_t>(n), size);
        Halves to(n);
        const float step = loops.split(x.data(), n, to.high.data(), to.low.data());
        double largest = 0;
        for (const float v : x) largest = std::max<double>(largest, std::fabs(v));
        EXPECT_NEAR(step, largest / 32767, largest * 1e-11) << n << " of " << size;
        for (int64_t j = 0; j < n; ++j)
          ASSERT_NEAR(static_cast<double>(to.at(j)) * step, x[j], step * 0.505) << j << " of " << n << " of " << size;
      }
}

TEST(Cell, NothingAndWhatIsNotFinite) {
  for (const Loops& loops : all_loops())
    for (const int64_t n : {1, 16, 37}) {
      const Guarded x(n);
      Halves to(n);
      for (const float none : {0.0F, -0.0F, 1e-40F, 9e-31F}) {
        x.fill(none);
        EXPECT_EQ(loops.split(x.data(), n, to.high.data(), to.low.data()), 0.0F) << none;
        for (int64_t j = 0; j < n; ++j) EXPECT_EQ(to.at(j), 0) << none;
      }
      for (const float bad : {std::nanf(""), INFINITY, -INFINITY})
        for (const int64_t where : {int64_t{0}, n - 1}) {
          x.fill(2.5F);
          x[where] = bad;
          EXPECT_TRUE(std::isnan(loops.split(x.data(), n, to.high.data(), to.low.data()))) << bad << " at " << where;
        }
    }
}

TEST(Cell, SumsAreThoseOfWholeNumbers) {
  Rng rng(7);
  constexpr int64_t kTerms = 200;
  for (const Loops& loops : all_loops())
    for (const int64_t n : {1, 15, 16, 64}) {
      std::vector<int32_t> high(static_cast<size_t>(n)), low(high), columns(high);
      std::vector<double> want(static_cast<size_t>(n));
      std::vector<float> scale, add;
      for (size_t j = 0; j < want.size(); ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < kTerms; ++k) {
          const int64_t w = rng.below(256) - 128, v = rng.below(65535) - 32767;
          high[j] += static_cast<int32_t>(w * ((v + 32768) >> 8));
          low[j] += static_cast<int32_t>(w * ((v + 32768) & 255));
          columns[j] += static_cast<int32_t>(w);
          sum += w * v;
        }
        scale.push_back(static_cast<float>(rng.uniform()));
        add.push_back(static_cast<float>(rng.normal()));
        want[j] = static_cast<double>(sum) * 0.0625 * scale.back();
      }
      for (const bool adds : {false, true}) {
        const Guarded y(n);
        loops.join(
            {high.data(), low.data(), columns.data(), scale.data(), adds ? add.data() : nullptr, 0.0625F, y.data(), n});
        for (size_t j = 0; j < want.size(); ++j) {
          const double is = want[j] + (adds ? static_cast<double>(add[j]) : 0);
          EXPECT_NEAR(y[static_cast<int64_t>(j)], is, 4e-7 * (std::fabs(want[j]) + 1)) << j << " of " << n;
        }
      }
    }
}

// Of one row to more than are multiplied at a time, of columns that fill no panel, of more products than one sum holds;
// with the largest numbers every sum of them is exact still.
TEST(Cell, SumsOfWordsAreThoseOfWholeNumbers) {
  if (!runs_here(Isa::kAvx2)) GTEST_SKIP() << "no AVX2";
  Rng rng(11);
  for (const int64_t k : {1, 5, 64, 301, 512, 1100})
    for (const int64_t n : {1, 8, 13, 16, 50})
      for (const int64_t rows : {1, 2, 3, 5})
        for (const bool largest : {false, true}) {
          const int64_t ldx = (k + 63) / 64 * 64;
          std::vector<int16_t> x(static_cast<size_t>(rows * ldx));
          std::vector<uint8_t> b(static_cast<size_t>(k * n));
          for (int16_t& v : x) v = static_cast<int16_t>(largest ? -32767 : rng.below(65535) - 32767);
          for (uint8_t& v : b) v = static_cast<uint8_t>(largest ? 0x80 : rng.below(256));
          std::vector<std::byte> packed(static_cast<size_t>(integer::packed_bytes(k, n)));
          integer::pack(b.data(), n, false, k, n, packed.data());
          const std::vector<float> steps(static_cast<size_t>(rows), 0.0625F), scale(static_cast<size_t>(n), 0.25F);
          std::vector<float> add(static_cast<size_t>(n));
          for (float& v : add) v = static_cast<float>(rng.normal()) * 1e4F;
          const Guarded y(rows * n);
          avx2::Words by;
          by.x = x.data();
          by.ldx = ldx;
          by.rows = rows;
          by.k = k;
          by.n = by.ldy = n;
          by.steps = steps.data();
          by.b = reinterpret_cast<const int8_t*>(packed.data());
          by.panel_bytes = integer::panel_bytes(k);
          by.scale = scale.data();
          by.add = largest ? nullptr : add.data();
          by.y = y.data();
          avx2::multiply(by);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t j = 0; j < n; ++j) {
              int64_t sum = 0;
              for (int64_t i = 0; i < k; ++i)
                sum += static_cast<int64_t>(x[static_cast<size_t>(r * ldx + i)]) *
                       static_cast<int8_t>(b[static_cast<size_t>(i * n + j)]);
              const double product = static_cast<double>(sum) / 64;
              const double is = product + (by.add ? static_cast<double>(add[static_cast<size_t>(j)]) : 0);
              ASSERT_NEAR(y[r * n + j], is, 2e-7 * (std::fabs(product) + std::fabs(is) + static_cast<double>(k) * 1e3))
                  << r << "," << j << " of " << rows << "x" << n << "x" << k;
            }
        }
}

TEST(Cell, WordsAreTheirTwoBytes) {
  if (!runs_here(Isa::kAvx2)) GTEST_SKIP() << "no AVX2";
  Rng rng(13);
  for (const int64_t n : {1, 16, 45, 300}) {
    const Guarded x(n);
    x.randomise(3, 2);
    Halves from(n);
    avx2::split(x.data(), n, from.high.data(), from.low.data());
    std::vector<int16_t> to(from.high.size());
    avx2::interleave(from.high.data(), from.low.data(), n, to.data());
    for (int64_t j = 0; j < n; ++j) ASSERT_EQ(to[static_cast<size_t>(j)], from.at(j)) << j << " of " << n;
  }
}

struct Defined {
  Function function;
  double (*at)(double x, double alpha, double beta);
};
const std::vector<Defined> kDefined = {
    {Function::kTanh, [](double x, double, double) { return std::tanh(x); }},
    {Function::kSigmoid, [](double x, double, double) { return 1 / (1 + std::exp(-x)); }},
    {Function::kRelu, [](double x, double, double) { return x < 0 ? 0 : x; }},
    {Function::kAffine, [](double x, double a, double b) { return a * x + b; }},
    {Function::kLeakyRelu, [](double x, double a, double) { return x < 0 ? a * x : x; }},
    {Function::kThresholdedRelu, [](double x, double a, double) { return x > a ? x : 0; }},
    {Function::kScaledTanh, [](double x, double a, double b) { return a * std::tanh(b * x); }},
    {Function::kHardSigmoid, [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }},
    {Function::kElu, [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }},
    {Function::kSoftsign, [](double x, double, double) { return x / (1 + std::fabs(x)); }},
    {Function::kSoftplus,
     [](double x, double, double) { return std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0); }},
};

TEST(Cell, FunctionsAreThoseOfTheirDefinitions) {
  constexpr int64_t kUnits = 37;
  for (const Loops& loops : all_loops())
    for (const Defined& f : kDefined)
      for (const auto& [alpha, beta] : {std::pair(0.375F, 0.75F), std::pair(-1.5F, -0.25F)})
        for (const float size : {1e-4F, 1.0F, 30.0F}) {
          const Guarded pre(kUnits), product(kUnits), state(kUnits);
          pre.randomise(5, size);
          product.fill(0);
          pre[0] = 0;
          pre[kUnits - 1] = std::nanf("");
          Row row;
          row.n = row.hidden = row.width = kUnits;
          row.pre = pre.data();
          row.product = product.data();
          row.clip = INFINITY;
          row.functions[0] = {f.function, alpha, beta};
          row.state = state.data();
          loops.run(row);
          const auto of = [&](int64_t j) {
            return f.at(static_cast<double>(pre[j]), static_cast<double>(alpha), static_cast<double>(beta));
          };
          for (int64_t j = 0; j + 1 < kUnits; ++j)
            EXPECT_NEAR(state[j], of(j), 5e-7 * (std::fabs(of(j)) + size * 0.1F + 1e-3))
                << static_cast<int>(f.function) << " at " << pre[j] << " with " << alpha << " and " << beta;
          EXPECT_EQ(std::isnan(state[kUnits - 1]), f.function != Function::kThresholdedRelu)
              << static_cast<int>(f.function);
        }
}

}  // namespace
}  // namespace peri::kernels::cpu::cell
