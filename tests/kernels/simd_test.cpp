// The vector functions against double arithmetic over sampled bit patterns of all floats, for every instruction set
// here.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/dtype.hpp"
#include "device/target.hpp"
#include "kernels/cpu/simd/arrays.hpp"

namespace peri::simd {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct IsaRow {
  const char* name;
  bool here;
  void (*apply)(Function, const float*, float*, int64_t);
  void (*pow)(const float*, const float*, float*, int64_t);
  void (*max)(const float*, const float*, float*, int64_t);
  void (*min)(const float*, const float*, float*, int64_t);
  void (*to_f16)(const float*, uint16_t*, int64_t);
  void (*to_bf16)(const float*, uint16_t*, int64_t);
  void (*from_f16)(const uint16_t*, float*, int64_t);
  void (*from_bf16)(const uint16_t*, float*, int64_t);
};

std::vector<IsaRow> isas() {
  const device::Target& cpu = device::this_cpu();
  return {{"avx2", cpu.has("avx2"), avx2::apply, avx2::apply_pow, avx2::apply_max, avx2::apply_min, avx2::to_f16,
           avx2::to_bf16, avx2::from_f16, avx2::from_bf16},
          {"avx512", cpu.has("avx512"), avx512::apply, avx512::apply_pow, avx512::apply_max, avx512::apply_min,
           avx512::to_f16, avx512::to_bf16, avx512::from_f16, avx512::from_bf16}};
}

float from_bits(uint32_t b) {
  float f;
  std::memcpy(&f, &b, sizeof f);
  return f;
}

// Distance in units of the last place of the correctly rounded float (subnormal spacing below 2^-126).
double ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // Just at the border of overflow either answer is within an ulp.
    const double most = std::numeric_limits<float>::max();
    return std::abs(std::isinf(got) ? want : static_cast<double>(got)) >= most * (1 - 0x1p-22) &&
                   std::abs(want) >= most * (1 - 0x1p-22)
               ? 1
               : 1e9;
  }
  const int e = std::max(std::ilogb(want == 0 ? 1e-300 : want), -126);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, e - 23);
}

// Every `step`-th float bit pattern, negative ones too, and the specials.
std::vector<float> samples(uint32_t step) {
  std::vector<float> v = {0.0f,
                          -0.0f,
                          kInf,
                          -kInf,
                          from_bits(1),
                          from_bits(0x80000001u),
                          from_bits(0x7fffff),
                          from_bits(0x800000),
                          1.0f,
                          -1.0f,
                          88.72283f,
                          88.72284f,
                          -87.33655f,
                          -103.97208f,
                          -103.9721f,
                          3.9192059f,
                          0.5f,
                          -0.5f,
                          1.5f,
                          2.5f,
                          8191.9f,
                          8192.0f,
                          from_bits(0x7f7fffff)};
  for (uint64_t b = 0; b < (uint64_t{1} << 32); b += step) v.push_back(from_bits(static_cast<uint32_t>(b)));
  for (int i = -4000; i <= 4000; ++i) v.push_back(static_cast<float>(i) * 1.5707964f);  // near multiples of pi/2
  return v;
}

struct Case {
  Function f;
  double (*want)(double);
  double most_ulps;
  const char* name;
};

double sigmoid64(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double silu64(double x) { return x * sigmoid64(x); }
double softplus64(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))) + (x != x ? NAN : 0); }
double relu64(double x) { return x < 0 ? 0 : x; }
double nearest64(double x) { return std::nearbyint(x); }

const Case kCases[] = {
    {Function::kExp, [](double x) { return std::exp(x); }, 1.1, "exp"},
    {Function::kExpm1, [](double x) { return std::expm1(x); }, 2, "expm1"},
    {Function::kLog, [](double x) { return std::log(x); }, 2, "log"},
    {Function::kTanh, [](double x) { return std::tanh(x); }, 2, "tanh"},
    {Function::kErf, [](double x) { return std::erf(x); }, 2.2, "erf"},
    {Function::kSigmoid, sigmoid64, 3, "sigmoid"},
    {Function::kSin, [](double x) { return std::sin(x); }, 2, "sin"},
    {Function::kCos, [](double x) { return std::cos(x); }, 2, "cos"},
    {Function::kRelu, relu64, 0, "relu"},
    {Function::kSilu, silu64, 4, "silu"},
    {Function::kSoftplus, softplus64, 4, "softplus"},
    {Function::kRound, nearest64, 0, "round"},
    {Function::kFloor, [](double x) { return std::floor(x); }, 0, "floor"},
    {Function::kCeil, [](double x) { return std::ceil(x); }, 0, "ceil"},
    {Function::kTrunc, [](double x) { return std::trunc(x); }, 0, "trunc"},
    {Function::kSqrt, [](double x) { return std::sqrt(x); }, 0.5, "sqrt"},
    {Function::kAbs, [](double x) { return std::abs(x); }, 0, "abs"},
    {Function::kNeg, [](double x) { return -x; }, 0, "neg"},
};

TEST(SimdTest, FunctionsAreWithinTheirUlpsOverAllFloats) {
  const std::vector<float> in = samples(4999);
  std::vector<float> out(in.size());
  for (const IsaRow& isa : isas()) {
    if (!isa.here) {
      printf("not run: %s is not available here\n", isa.name);
      continue;
    }
    for (const Case& c : kCases) {
      isa.apply(c.f, in.data(), out.data(), static_cast<int64_t>(in.size()));
      double worst = 0;
      float where = 0, got = 0;
      for (size_t i = 0; i < in.size(); ++i) {
        const double want = c.want(in[i]);
        double u = ulps(out[i], want);
        // The sign of a zero counts where the argument is a zero.
        if (in[i] == 0 && want == 0 && std::signbit(out[i]) != std::signbit(want)) u = 1e9;
        if (u > worst) {
          worst = u;
          where = in[i];
          got = out[i];
        }
      }
      printf("%-7s %-9s worst %.3f ulp at %a\n", isa.name, c.name, worst, static_cast<double>(where));
      EXPECT_LE(worst, c.most_ulps) << isa.name << " " << c.name << " x=" << where << " got " << got << " want "
                                    << c.want(where);
    }
  }
}

TEST(SimdTest, ActivationsAreWithinTheirAbsoluteBounds) {
  const std::vector<float> in = samples(9973);
  std::vector<float> out(in.size());
  for (const IsaRow& isa : isas()) {
    if (!isa.here) continue;
    isa.apply(Function::kGeluErf, in.data(), out.data(), static_cast<int64_t>(in.size()));
    for (size_t i = 0; i < in.size(); ++i) {
      const double x = in[i];
      if (std::isnan(x) || x == -INFINITY) {  // -Inf times 0
        EXPECT_TRUE(std::isnan(out[i]));
        continue;
      }
      const double want = 0.5 * x * std::erfc(-x / std::sqrt(2.0));
      if (std::isinf(want)) {
        EXPECT_EQ(out[i], want);
        continue;
      }
      EXPECT_LE(std::abs(out[i] - want), 4 * 0x1p-24 * std::min(std::abs(x), 8.0 + std::abs(want)) + 1e-45) << x;
    }
    isa.apply(Function::kGeluTanh, in.data(), out.data(), static_cast<int64_t>(in.size()));
    for (size_t i = 0; i < in.size(); ++i) {
      const double x = in[i];
      if (std::isnan(x) || std::abs(x) > 1e6) continue;
      const double want = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      EXPECT_LE(std::abs(out[i] - want), 8 * 0x1p-24 * std::min(std::abs(x), 8.0 + std::abs(want)) + 1e-45) << x;
    }
    isa.apply(Function::kHardSwish, in.data(), out.data(), static_cast<int64_t>(in.size()));
    for (size_t i = 0; i < in.size(); ++i) {
      const double x = in[i];
      if (std::isnan(x) || std::isinf(x)) continue;
      const double want = x * std::min(1.0, std::max(0.0, x / 6 + 0.5));
      EXPECT_LE(std::abs(out[i] - want), 4 * 0x1p-24 * std::abs(x) + 1e-45) << x;
    }
  }
}

TEST(SimdTest, PowIsWithinAnUlpAndHasTheSpecialCasesOfC) {
  const float special[] = {0.0f,         -0.0f, 1.0f,   -1.0f,       2.0f,       -2.0f,  3.0f,    -3.0f,
                           0.5f,         -0.5f, kInf,   -kInf,       NAN,        1e-40f, -1e-40f, 16777217.0f,
                           -16777215.0f, 1e30f, -1e30f, 0.99999994f, 1.0000001f, 2.5f,   -2.5f};
  std::vector<float> x, y;
  for (float a : special) {
    for (float b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  uint64_t state = 12345;  // the seed
  for (int i = 0; i < 300000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double u = static_cast<double>(state >> 40) * 0x1p-24;
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double v = static_cast<double>(state >> 40) * 0x1p-24;
    x.push_back(static_cast<float>(std::exp((u - 0.5) * 170)));
    y.push_back(static_cast<float>((v - 0.5) * std::exp(u * 8 - 2)));
  }
  std::vector<float> out(x.size());
  for (const IsaRow& isa : isas()) {
    if (!isa.here) continue;
    isa.pow(x.data(), y.data(), out.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
      const double u = ulps(out[i], want);
      worst = std::max(worst, u);
      ASSERT_LE(u, 1.0) << isa.name << " pow(" << x[i] << ", " << y[i] << ") = " << out[i] << ", not " << want;
      if (want == 0 || std::isinf(want)) {
        ASSERT_EQ(std::signbit(out[i]), std::signbit(want)) << x[i] << " " << y[i];
      }
    }
    printf("%s pow worst %.3f ulp\n", isa.name, worst);
  }
}

TEST(SimdTest, MaxAndMinKeepNaN) {
  const float x[] = {NAN, 1, NAN, 2, -kInf, kInf, 3, -1}, y[] = {1, NAN, NAN, 5, 1, 1, -3, -2};
  for (const IsaRow& isa : isas()) {
    if (!isa.here) continue;
    float hi[8], lo[8];
    isa.max(x, y, hi, 8);
    isa.min(x, y, lo, 8);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(hi[i]) && std::isnan(lo[i])) << isa.name << i;
    for (int i = 3; i < 8; ++i) {
      EXPECT_EQ(hi[i], std::max(x[i], y[i]));
      EXPECT_EQ(lo[i], std::min(x[i], y[i]));
    }
  }
}

TEST(SimdTest, HalfConversionsEqualTheScalarOnes) {
  const std::vector<float> in = samples(65521);
  std::vector<uint16_t> h(in.size());
  std::vector<float> back(65536);
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const IsaRow& isa : isas()) {
    if (!isa.here) continue;
    isa.to_f16(in.data(), h.data(), static_cast<int64_t>(in.size()));
    for (size_t i = 0; i < in.size(); ++i) {
      const bool nan = (h[i] & 0x7fff) > 0x7c00;
      ASSERT_TRUE(std::isnan(in[i]) ? nan : h[i] == f32_to_f16(in[i])) << in[i];
    }
    isa.to_bf16(in.data(), h.data(), static_cast<int64_t>(in.size()));
    for (size_t i = 0; i < in.size(); ++i) {
      const bool nan = (h[i] & 0x7fff) > 0x7f80;
      ASSERT_TRUE(std::isnan(in[i]) ? nan : h[i] == f32_to_bf16(in[i])) << in[i];
    }
    isa.from_f16(all.data(), back.data(), 65536);
    for (size_t i = 0; i < all.size(); ++i) {
      const float want = f16_to_f32(all[i]);
      ASSERT_TRUE(back[i] == want || (std::isnan(back[i]) && std::isnan(want))) << i;
    }
    isa.from_bf16(all.data(), back.data(), 65536);
    for (size_t i = 0; i < all.size(); ++i) {
      const float want = bf16_to_f32(all[i]);
      ASSERT_TRUE(back[i] == want || (std::isnan(back[i]) && std::isnan(want))) << i;
    }
  }
}

TEST(SimdTest, TailsTouchNothingBeyondTheArray) {
  const size_t page = 4096;
  char* map = static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(map, MAP_FAILED);
  ASSERT_EQ(mprotect(map + page, page, PROT_NONE), 0);
  for (const IsaRow& isa : isas()) {
    if (!isa.here) continue;
    for (int n = 0; n <= 40; ++n) {
      float* p = reinterpret_cast<float*>(map + page) - n;
      for (int i = 0; i < n; ++i) p[i] = static_cast<float>(i);
      for (int f = 0; f < kFunctionCount; ++f) isa.apply(static_cast<Function>(f), p, p, n);
      for (int i = 0; i < n; ++i) p[i] = static_cast<float>(i);
      isa.apply(Function::kNeg, p, p, n);
      for (int i = 0; i < n; ++i) EXPECT_EQ(p[i], -static_cast<float>(i));
      uint16_t* q = reinterpret_cast<uint16_t*>(map + page) - n;
      std::vector<float> values(static_cast<size_t>(n), 1.0f);
      isa.to_f16(values.data(), q, n);
      isa.from_f16(q, values.data(), n);
      isa.to_bf16(values.data(), q, n);
      isa.from_bf16(q, values.data(), n);
      for (float v : values) EXPECT_EQ(v, 1.0f);
    }
  }
  munmap(map, 2 * page);
}

}  // namespace
}  // namespace peri::simd
