// A convolution that Winograd computes by tiles stays within the radius of the reference wherever the tile has inputs,
// and an error as small as its round-off is seen everywhere else.
#include "ops/reference/conv_tiles.hpp"

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

constexpr double kU = 0x1p-24;

using Square = std::array<std::array<float, 6>, 6>;

// b * d * transpose(b) by float32, the first `rows` x `in` of each; what F(4x4, 3x3) does thrice.
Square turned(const float (&b)[6][6], const Square& d, int rows, int in) {
  Square half{}, out{};
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < in; ++j)
      for (int k = 0; k < in; ++k) half[i][j] += b[i][k] * d[k][j];
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < rows; ++j)
      for (int k = 0; k < in; ++k) out[i][j] += half[i][k] * b[j][k];
  return out;
}
constexpr float kInput[6][6] = {{4, 0, -5, 0, 1, 0},  {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
                                {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
constexpr float kFilter[6][6] = {{1 / 4.f, 0, 0},
                                 {-1 / 6.f, -1 / 6.f, -1 / 6.f},
                                 {-1 / 6.f, 1 / 6.f, -1 / 6.f},
                                 {1 / 24.f, 1 / 12.f, 1 / 6.f},
                                 {1 / 24.f, -1 / 12.f, 1 / 6.f},
                                 {0, 0, 1}};
constexpr float kResult[6][6] = {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}};

// 4 x 4 results of one image of 6 x 6 and one filter.
Square winograd(const RefTensor& x, const RefTensor& w, int64_t channels) {
  Square sums{};
  for (int64_t c = 0; c < channels; ++c) {
    Square d{}, g{};
    for (size_t k = 0; k < 36; ++k) d[k / 6][k % 6] = static_cast<float>(x.f[static_cast<size_t>(c) * 36 + k]);
    for (size_t k = 0; k < 9; ++k) g[k / 3][k % 3] = static_cast<float>(w.f[static_cast<size_t>(c) * 9 + k]);
    const Square v = turned(kInput, d, 6, 6), f = turned(kFilter, g, 6, 3);
    for (size_t k = 0; k < 36; ++k) sums[k / 6][k % 6] += v[k / 6][k % 6] * f[k / 6][k % 6];
  }
  return turned(kResult, sums, 4, 6);
}

RefTensor made(std::vector<int64_t> dims, const std::function<double(size_t)>& value) {
  RefTensor t = make_ref(DType::kF32, std::move(dims));
  for (size_t k = 0; k < t.f.size(); ++k) t.f[k] = static_cast<double>(static_cast<float>(value(k)));
  return t;
}

std::string conv_text(int64_t ic, int64_t h, int64_t w, int64_t oc, const std::string& attrs, int kernel = 3) {
  return text_of(
      "graph { input x: f32[1,%lld,%lld,%lld]; input w: f32[%lld,%lld,%d,%d]; y = conv(x, w) {%s}; output y }",
      static_cast<long long>(ic), static_cast<long long>(h), static_cast<long long>(w), static_cast<long long>(oc),
      static_cast<long long>(ic), kernel, kernel, attrs.c_str());
}

RefOptions judged(std::vector<int64_t> positions = {}) {
  RefOptions o;
  o.u = kU;
  o.positions = std::move(positions);
  return o;
}

TEST(ConvTiles, WinogradStaysWithinTheRadius) {
  Rng rng(5);
  const auto normal = [&](size_t) { return rng.normal(); };
  struct Kind {
    const char* name;
    std::function<double(size_t)> x, w;
  };
  size_t pixel = 0;
  const Kind kinds[] = {
      {"even", normal, normal},
      {"three rows of zeros", [&](size_t k) { return k % 36 < 18 ? 0 : rng.normal(); }, normal},
      {"one pixel", [&](size_t k) { return k % 36 == pixel ? rng.normal() : 0; }, normal},
      {"one pixel, one tap", [&](size_t k) { return k % 36 == pixel ? rng.normal() : 0; },
       [&](size_t k) { return k % 9 == pixel % 9 ? rng.normal() : 0; }},
      {"of many sizes", [&](size_t) { return rng.normal() * std::exp(3 * rng.normal()); }, normal},
      {"positive", [&](size_t) { return std::fabs(rng.normal()); }, [&](size_t) { return std::fabs(rng.normal()); }},
  };
  int beyond_direct = 0;
  for (const int64_t channels : {16, 17, 64})
    for (const Kind& kind : kinds)
      for (int round = 0; round < 200; ++round) {
        pixel = static_cast<size_t>(rng.below(36));
        const std::vector<RefTensor> in = {made({1, channels, 6, 6}, kind.x), made({1, channels, 3, 3}, kind.w)};
        const auto y = run_text(conv_text(channels, 6, 6, 1, ""), in, judged());
        const Square got = winograd(in[0], in[1], channels);
        for (int64_t at = 0; at < 16; ++at) {
          const double want = y[0].f[static_cast<size_t>(at)],
                       error = std::fabs(
                           static_cast<double>(got[static_cast<size_t>(at / 4)][static_cast<size_t>(at % 4)]) - want);
          EXPECT_LE(error, y[0].r(at)) << kind.name << ", " << channels << " channels, at " << at;
          beyond_direct += want == 0 && error > 0;
        }
      }
  EXPECT_GT(beyond_direct, 0) << "no result without inputs had any round-off";
}

// Rows 0 to 7 hold zeros, the next numbers.
std::vector<RefTensor> lower_half(int64_t channels, int64_t outputs, int kernel = 3) {
  Rng rng(9);
  return {made({1, channels, 16, 9}, [&](size_t k) { return k % 144 < 72 ? 0 : rng.normal(); }),
          made({outputs, channels, kernel, kernel}, [&](size_t) { return rng.normal(); })};
}

TEST(ConvTiles, WhatIsFarFromNumbersIsExact) {
  const auto y = run_text(conv_text(16, 16, 9, 3, "pads=[1,1,1,1]"), lower_half(16, 3), judged());
  ASSERT_EQ(y[0].dims, (std::vector<int64_t>{1, 3, 16, 9}));
  for (int64_t at = 0; at < y[0].numel(); ++at) {
    const int64_t row = at / 9 % 16;
    if (row < 4) EXPECT_EQ(y[0].r(at), 0) << "row " << row << ": its tile takes rows -1 to 4";
    if (row >= 4 && row < 8) EXPECT_GT(y[0].r(at), 0) << "row " << row << ": its tile takes rows 3 to 8";
  }
}

TEST(ConvTiles, OtherConvolutionsHaveNone) {
  for (const auto& [attrs, kernel] :
       std::vector<std::pair<std::string, int>>{{"pads=[2,2,2,2]", 5}, {"", 1}, {"pads=[1,1,1,1], strides=[2,2]", 3}}) {
    const auto in = lower_half(16, 2, kernel);
    const auto y = run_text(conv_text(16, 16, 9, 2, attrs, kernel), in, judged());
    for (int64_t at = 0; at < y[0].numel(); ++at)
      if (y[0].f[static_cast<size_t>(at)] == 0) EXPECT_EQ(y[0].r(at), 0) << attrs << " " << kernel << " at " << at;
  }
  const auto y = run_text(conv_text(3, 16, 9, 2, "pads=[1,1,1,1]"), lower_half(3, 2), judged());
  EXPECT_EQ(y[0].r(6 * 9), 0) << "of three channels";
}

// Dilations, pads and sizes that no tile divides, behind another op: at positions as in the whole.
TEST(ConvTiles, SomePositionsAreAsTheWhole) {
  auto g = ir::parse_graph(
      "graph { input x: f32[1,5,16,9]; input w: f32[2,5,3,3]; h = neg(x); y = conv(h, w) {pads=[2,3,1,4], "
      "dilations=[2,3]}; output y }");
  ASSERT_TRUE(g.ok() && infer_graph(*g).ok());
  const auto in = lower_half(5, 2);
  const auto all = run_reference(*g, in, judged());
  ASSERT_TRUE(all.ok());
  const RefTensor& whole = (*all)[0];
  Rng rng(2);
  for (int round = 0; round < 20; ++round) {
    std::vector<int64_t> positions;
    for (int64_t at = rng.below(9); at < whole.numel(); at += 1 + rng.below(20)) positions.push_back(at);
    const auto some = run_reference(*g, in, judged(positions));
    ASSERT_TRUE(some.ok());
    for (const int64_t at : positions) {
      EXPECT_NEAR((*some)[0].f[static_cast<size_t>(at)], whole.f[static_cast<size_t>(at)], 1e-12);
      EXPECT_NEAR((*some)[0].r(at), whole.r(at), 1e-9 * whole.r(at)) << at;
    }
  }
}

// Every input of each result's window is one of its tile's.
TEST(ConvTiles, ATileHoldsItsWindows) {
  for (const int64_t dilation : {1, 2, 3})
    for (const int64_t pad : {0, 1, 3}) {
      const Window w{{3, 3}, {1, 1}, {dilation, 1}, {pad, 1}, {pad, 1}};
      const std::vector<int64_t> in = {13, 10}, out = {13 + 2 * pad - 2 * dilation, 10};
      const ConvTiles tiles(w, in, out);
      for (int64_t at = 0; at < out[0] * out[1]; ++at) {
        ASSERT_LT(tiles.of(at), tiles.count());
        std::vector<char> held(130, 0);
        tiles.each_input(tiles.of(at), [&](int64_t offset) { held[static_cast<size_t>(offset)] = 1; });
        const int64_t o[] = {at / out[1], at % out[1]};
        each_tap(w, in, o, [&](int64_t offset, int64_t) {
          EXPECT_TRUE(held[static_cast<size_t>(offset)]) << "result " << at << ", input " << offset;
        });
      }
    }
}

}  // namespace
}  // namespace peri::ops
