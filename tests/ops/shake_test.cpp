// Shaken answers: they stay within the radii where nothing jumps, and take both sides of a comparison that round-off
// does not decide.
#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

constexpr double kU = 0x1p-24;

RefOptions shaken(uint64_t seed) {
  RefOptions o{.u = kU};
  o.shake = seed;
  return o;
}

std::vector<RefTensor> normals(uint64_t seed) {
  Rng rng(seed);
  std::vector<double> x(64), w(64);
  for (double& v : x) v = round_to(DType::kF32, 3 * rng.normal());
  for (double& v : w) v = round_to(DType::kF32, rng.normal());
  return {floats({8, 8}, x), floats({8, 8}, w)};
}

TEST(Shake, StaysWithinTheRadiiAndMoves) {
  const char* text =
      "graph { input x: f32[8,8]; input w: f32[8,8]; p = matmul(x, w); t = tanh(p); s = softmax(t) {axis=-1}; "
      "z = sub(s, t); output z }";
  for (uint64_t data = 1; data <= 4; ++data) {
    const auto in = normals(data);
    const RefTensor want = run_text(text, in, {.u = kU})[0];
    size_t moved = 0;
    for (uint64_t seed = 1; seed <= 32; ++seed) {
      const RefTensor got = run_text(text, in, shaken(seed))[0];
      for (size_t k = 0; k < want.f.size(); ++k) {
        EXPECT_LE(std::fabs(got.f[k] - want.f[k]), want.radius[k] + kU * std::fabs(want.f[k])) << data << " " << seed;
        moved += got.f[k] != want.f[k];
      }
      EXPECT_TRUE(got.radius.empty());
    }
    EXPECT_GT(moved, 32u * 32u);
  }
}

TEST(Shake, TheSameSeedGivesTheSameAnswer) {
  const char* text = "graph { input x: f32[8,8]; input w: f32[8,8]; p = matmul(x, w); output p }";
  const auto in = normals(3);
  EXPECT_EQ(run_text(text, in, shaken(5))[0].f, run_text(text, in, shaken(5))[0].f);
  EXPECT_NE(run_text(text, in, shaken(5))[0].f, run_text(text, in, shaken(6))[0].f);
}

// tanh is flat there: no change of 1e-6 of the inputs tells the two apart, the rounding of tanh does.
TEST(Shake, ATieIsTakenBothWaysAndAChoiceIsNot) {
  const char* text =
      "graph { input x: f32[2]; t = tanh(x); y = arg_max(t) {axis=0, keepdims=0, select_last_index=0}; output y }";
  const auto answers = [&](double a, double b) {
    size_t second = 0;
    for (uint64_t seed = 1; seed <= 32; ++seed)
      second += run_text(text, std::vector<RefTensor>{floats({2}, {a, b})}, shaken(seed))[0].i[0] == 1;
    return second;
  };
  EXPECT_GT(answers(8.0, 8.01), 4u);
  EXPECT_LT(answers(8.0, 8.01), 28u);
  EXPECT_EQ(answers(1.0, 1.01), 32u);
  EXPECT_EQ(answers(1.01, 1.0), 0u);
}

}  // namespace
}  // namespace peri::ops
