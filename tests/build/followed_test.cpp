// Answers behind roundings: what parts at a tie is held value by value and accepted; a unit where no tie is, is not.
// label: cpu
#include "judge/followed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/rng.hpp"
#include "judge/engine.hpp"
#include "tests/build/held_subject.hpp"

namespace peri::build {
namespace {

constexpr int64_t kWidth = 120;

// x times 0.7 in steps of 0.7, whose roundings are ties where x lies between two integers; then a product of the bytes
// as models quantised by ONNX's operators have it. `also` goes to the first byte's float, `zero` and `last` are the
// zero points.
struct Parts {
  std::string also = "p = mul(x, k);";  // what is rounded
  int zero = 128, last = 100;
};
std::string quantised(const Parts& parts, std::string_view outputs) {
  return "graph { input x: f32[1,120]; input w: f32[120,16]; const k: f32[] = [0.7]; const s: f32[] = [0.7]; const z: "
         "u8[] = [" +
         std::to_string(parts.zero) + "]; const t: f32[] = [2.3]; const e: u8[] = [" + std::to_string(parts.last) +
         "]; " + parts.also +
         " y = quantize_linear(p, s, z); d = dequantize_linear(y, s, z); m = matmul(d, w); b = quantize_linear(m, t, "
         "e); f "
         "= dequantize_linear(b, t, e); " +
         std::string(outputs) + " }";
}

// Of x with this part behind each integer.
judge::Verification verified(const judge::Subject& s, double part, bool bisect = false) {
  judge::VerifyTerms terms;
  terms.bisect = bisect;
  terms.seeds = {1};
  terms.inputs = [=](uint64_t seed) -> Result<std::vector<Tensor>> {
    Tensor x = Tensor::zeros(DType::kF32, {1, kWidth}).value(), w = Tensor::zeros(DType::kF32, {kWidth, 16}).value();
    for (int64_t k = 0; k < kWidth; ++k) x.set_f64(k, static_cast<double>(k - kWidth / 2) + part);
    Rng rng(seed);
    for (int64_t k = 0; k < w.numel(); ++k) w.set_f64(k, 0.2 * rng.normal());
    return std::vector<Tensor>{x, w};
  };
  auto v = judge::verify(s, terms);
  EXPECT_TRUE(v.ok()) << v.error().text();
  return std::move(*v);
}

TEST(Followed, WhatPartsAtTiesIsProvenValueByValue) {
  const std::string model = quantised({}, "output y; output b; output f");
  const judge::Verification v = verified(subject(model, model), 0.5);
  EXPECT_TRUE(v.passed) << v.text();
  ASSERT_EQ(v.outputs.size(), 3u);
  EXPECT_GT(v.outputs[0].difference.l0, 0) << "float32 takes no other side anywhere: this test shows nothing";
  EXPECT_GT(v.outputs[0].ties, 0);
  EXPECT_LT(v.outputs[0].ties, kWidth / 2);
  EXPECT_GT(v.followed, 0u);
  EXPECT_LE(v.worst, v.allowed) << "a unit at a tie is not an error: " << v.text();
  for (const judge::OutputVerdict& o : v.outputs) EXPECT_TRUE(o.inside) << o.output;
  EXPECT_NE(v.text().find("float32 does not decide"), std::string::npos) << v.text();
}

// The float that is rounded is one that the engine keeps: it is rounded as it should be, and the exact one another way.
TEST(Followed, TiesOfAKeptFloatAreCountedAndAUnitHasASize) {
  const std::string model = quantised({}, "output p; output y");
  const judge::Verification v = verified(subject(model, model), 0.5);
  EXPECT_TRUE(v.passed) << v.text();
  ASSERT_EQ(v.outputs.size(), 2u);
  const judge::OutputVerdict& y = v.outputs[1];
  ASSERT_GT(y.followed, 0);
  EXPECT_GT(y.ties, 0);
  EXPECT_EQ(y.difference.linf, 1);
  EXPECT_GT(y.difference.range, 100);
  EXPECT_GT(y.difference.largest, y.difference.range);
  EXPECT_EQ(y.difference.relative, 1 / y.difference.range);
  EXPECT_LT(y.difference.cosine, 1);
}

// What parts from the source at a tie is no wrong step, and what parts elsewhere is.
TEST(Followed, BisectHoldsWhatIsBehindARoundingValueByValue) {
  const std::string outputs = "output d";
  const judge::Verification right = [&] {
    judge::Subject s = subject(quantised({}, outputs), quantised({}, outputs));
    s.source = true;
    return verified(s, 0.5, true);
  }();
  EXPECT_GT(right.outputs[0].followed, 0) << "no tie: this test shows nothing";
  EXPECT_TRUE(right.passed) << right.text();
  for (const double part : {0.25, 0.5}) {
    const std::string model = quantised({}, "output f"), of_bytes = "d = dequantize_linear(y, s, z);";
    std::string engine = model;
    engine.replace(engine.find(of_bytes), of_bytes.size(), "const u: u8[] = [129]; d = dequantize_linear(y, s, u);");
    judge::Subject s = subject(engine, model);
    s.source = true;
    const judge::Verification wrong = verified(s, part, true);
    EXPECT_FALSE(wrong.passed);
    EXPECT_NE(wrong.bisected.find("the first step outside its bound is"), std::string::npos) << wrong.text();
    EXPECT_NE(wrong.bisected.find("value by value"), std::string::npos) << wrong.text();
  }
}

TEST(Followed, WithoutTiesNothingIsFollowed) {
  const std::string model = quantised({}, "output y; output b; output f");
  const judge::Verification v = verified(subject(model, model), 0.25);
  EXPECT_TRUE(v.passed) << v.text();
  EXPECT_EQ(v.followed, 0u);
  EXPECT_EQ(v.worst, 0);
}

// The engine is that of another model; the byte itself, bytes behind it and floats behind them say so.
void expect_refused(const Parts& wrong, double part, std::string_view outputs) {
  const judge::Verification v = verified(subject(quantised(wrong, outputs), quantised({}, outputs)), part);
  EXPECT_FALSE(v.passed) << outputs << " " << part << ": " << v.text();
  EXPECT_NE(v.text().find("value by value"), std::string::npos) << v.text();
}

TEST(Followed, AUnitWhereNoTieIsIsRefused) {
  for (const double part : {0.25, 0.5}) {  // beside true ties too
    expect_refused({.zero = 129}, part, "output y");
    expect_refused({.last = 101}, part, "output b");
  }
  // Downward in place of to the nearest, and half a hundredth of a step more.
  const char* kDown = "const h: f32[] = [0.35]; q = mul(x, k); p = sub(q, h);";
  const char* kMore = "const h: f32[] = [0.0035]; q = mul(x, k); p = add(q, h);";
  for (const char* outputs : {"output y", "output b", "output f"}) {
    expect_refused({.also = kDown}, 0.75, outputs);
    expect_refused({.also = kMore}, 0.497, outputs);
  }
}

// What a build says of an engine of one graph that was imported as another.
judge::EngineVerdict judged(const std::string& engine, const std::string& model, const DimBinding& sizes = {}) {
  const judge::Subject s = subject(engine, model);
  judge::Terms terms;
  terms.tuned_for = sizes;
  auto v = judge::judge_engine(s.engine, s.reference, parsed(engine), terms);
  EXPECT_TRUE(v.ok()) << v.error().text();
  return std::move(*v);
}

TEST(Followed, ABuildHoldsAnswersBehindRoundings) {
  const std::string model = quantised({}, "output y; output b; output f");
  const judge::EngineVerdict v = judged(model, model);
  EXPECT_TRUE(v.right()) << v.wrong;
  ASSERT_EQ(v.sizes.size(), 1u);
  EXPECT_TRUE(v.sizes[0].whole >= 0 || v.sizes[0].followed > 0) << "nothing was compared";
}

TEST(Followed, ABuildRefusesAWrongUnit) {
  for (const Parts& wrong : {Parts{.zero = 129}, Parts{.last = 101}}) {
    const char* output = wrong.zero == 129 ? "output y" : "output b";
    const judge::EngineVerdict v = judged(quantised(wrong, output), quantised({}, output));
    EXPECT_FALSE(v.right()) << output;
    EXPECT_NE(v.wrong.find("value by value"), std::string::npos) << v.wrong;
  }
}

// 1.1 GFLOP, where there is no whole answer in float64: of 640,000 bytes some are held.
std::string large(int zero) {
  return "graph { input x: f32[800,864]; input w: f32[864,800]; const s: f32[] = [0.7]; const z: u8[] = [" +
         std::to_string(zero) + "]; m = matmul(x, w); y = quantize_linear(m, s, z); output y }";
}
TEST(Followed, ABuildHoldsPartsOfALargeAnswer) {
  const judge::EngineVerdict right = judged(large(128), large(128));
  EXPECT_TRUE(right.right()) << right.wrong;
  ASSERT_EQ(right.sizes.size(), 1u);
  EXPECT_LT(right.sizes[0].whole, 0) << "the whole answer was computed: this test shows nothing";
  EXPECT_GT(right.sizes[0].followed, 0) << right.sizes[0].whole_because;
  EXPECT_FALSE(judged(large(129), large(128)).right());
}

// A model that rounds what it is given has no tie that is not decided: there is nothing to shake.
TEST(Followed, AnInputIsExact) {
  const char* kModel =
      "graph { input x: f32[1,120]; input w: f32[120,16]; const s: f32[] = [1]; const z: u8[] = [128]; y = "
      "quantize_linear(x, s, z); output y }";
  const char* kUp =
      "graph { input x: f32[1,120]; input w: f32[120,16]; const s: f32[] = [1]; const z: u8[] = [128]; const h: "
      "f32[] = [1e-5]; a = add(x, h); y = quantize_linear(a, s, z); output y }";
  EXPECT_TRUE(verified(subject(kModel, kModel), 0.5).passed);
  EXPECT_FALSE(verified(subject(kUp, kModel), 0.5).passed);
}

// 240 sums less the same sums in another order, and one of 960 that is off by `off`: the rest is nothing but rounding,
// which decides neither which is the largest nor whether one is zero. Values on the way have this letter, so that an
// engine of other letters has none of a model's.
std::string cancelled(std::string after, char letter, double off) {
  std::string turned, lifted;
  for (int k = 0; k < 120; ++k) turned += (k ? ", " : "") + std::to_string(k * 77 % 120);
  for (int k = 0; k < 960; ++k) lifted += (k ? ", " : "") + std::to_string(k == 580 ? off : 0);
  std::string text =
      "graph { input x: f32[4,120]; const w: f32[120,240] = seeded(0.2, 5); const zero: f32[] = [0]; const tiny: f32[] "
      "= [1e-4]; const k: i64[1] = [3]; const turned: i64[120] = [" +
      turned + "]; const lifted: f32[4,240] = [" + lifted +
      "]; $a = matmul(x, w); $b = gather(x, turned) {axis=1}; $c = gather(w, turned) {axis=0}; $d = matmul($b, $c); $e "
      "= sub($a, $d); $f = add($e, lifted); " +
      std::move(after) + " output y }";
  std::replace(text.begin(), text.end(), '$', letter);
  return text;
}
TEST(Followed, WhatRoundingAloneDecidesMayComeOutAnyWayAndNothingElse) {
  struct Case {
    std::string after;
    double wrong;  // an element of the model that is no more rounding alone; 0: any answer is right
  };
  const Case cases[] = {{"y = hardmax($f);", 1e-3},
                        {"y = arg_max($f) {axis=1};", 1e-3},
                        {"y = arg_min($f) {axis=1, keepdims=0};", -1e-3},
                        {"$g, y = top_k($f, k);", 1e-3},
                        {"$g, y = top_k($f, k) {largest=0};", -1e-3},
                        {"y = equal($f, zero);", 0},
                        {"$g = abs($f); y = less($g, tiny);", 1e-3},
                        {"y = floor($f);", 1.001},
                        {"y = sign($f);", 0}};
  for (const Case& c : cases) {
    const judge::EngineVerdict v = judged(cancelled(c.after, 'm', 0), cancelled(c.after, 'n', 0));
    EXPECT_TRUE(v.right()) << c.after << ": " << v.wrong;
    if (c.wrong != 0) {
      EXPECT_FALSE(judged(cancelled(c.after, 'm', 0), cancelled(c.after, 'n', c.wrong)).right()) << c.after;
    }
  }
}

// A product of bytes with weights that an engine of 16 bits rounds, in steps of 5, and what is added before them to
// some of its 4,000 columns.
constexpr int64_t kColumns = 4000;
struct Wrong {
  double by = 0;
  std::vector<int64_t> columns = {1234};
};
std::string rounded_weights(const Wrong& wrong) {
  std::string more;
  if (wrong.by != 0) {
    const auto at = [&](int64_t k) {
      return std::count(wrong.columns.begin(), wrong.columns.end(), k) != 0 ? std::to_string(wrong.by) : "0.0";
    };
    more = "const h: f32[4000] = [" + at(0);
    for (int64_t k = 1; k < kColumns; ++k) more += ", " + at(k);
    more += "]; ";
  }
  return "graph { input x: u8[1,120]; const w: f32[120,4000] = seeded(0.2, 5); const s: f32[] = [0.7]; const z: u8[] = "
         "[128]; const t: f32[] = [5.0]; const e: u8[] = [128]; " +
         more + "d = dequantize_linear(x, s, z); m = matmul(d, w); " + (more.empty() ? "" : "a = add(m, h); ") +
         "b = quantize_linear(" + (more.empty() ? "m" : "a") +
         ", t, e); f = dequantize_linear(b, t, e); output b; output f }";
}
judge::Verification verified_narrow(const Wrong& wrong, DType dtype, uint64_t seed) {
  judge::VerifyTerms terms;
  terms.seeds = {seed};
  terms.inputs = [](uint64_t seed) -> Result<std::vector<Tensor>> {
    Tensor x = Tensor::zeros(DType::kU8, {1, kWidth}).value();
    Rng rng(seed);
    for (int64_t k = 0; k < kWidth; ++k) x.set_i64(k, rng.below(256));
    return std::vector<Tensor>{x};
  };
  auto v = judge::verify(subject(rounded_weights(wrong), rounded_weights({}), dtype), terms);
  EXPECT_TRUE(v.ok()) << v.error().text();
  return std::move(*v);
}

TEST(Followed, RoundedWeightsTakeTheOtherSideOfATieAndNoMore) {
  for (const DType dtype : {DType::kF16, DType::kBF16})
    for (const uint64_t seed : {1, 2, 3}) {
      const judge::Verification v = verified_narrow({}, dtype, seed);
      EXPECT_TRUE(v.passed) << v.text();
      ASSERT_EQ(v.outputs.size(), 2u);
      EXPECT_GT(v.outputs[0].difference.l0, 0) << "no byte is another: this test shows nothing";
      EXPECT_GT(v.followed, 0u);
      // Two steps of one element; and one step where not all are ties, as most of bfloat16 may be.
      for (const Wrong& wrong : {Wrong{10}, Wrong{-10}, Wrong{5, {7, 1234, 3000}}, Wrong{-5, {7, 1234, 3000}}}) {
        if (dtype == DType::kBF16 && std::abs(wrong.by) < 10) continue;
        const judge::Verification refused = verified_narrow(wrong, dtype, seed);
        EXPECT_FALSE(refused.passed) << wrong.by << ": " << refused.text();
        EXPECT_NE(refused.text().find("value by value"), std::string::npos) << refused.text();
      }
    }
}

// Eight layers that are added to what they read, and a tanh of what has grown; `last`: what the last is added to.
std::string growing(int last = 7) {
  std::string text = "graph { input h0: f32[64,32]; ", body;
  for (int k = 0; k < 8; ++k) {
    text += format("const w%d: f32[32,32] = seeded(0.25, %d); ", k, 20 + k);
    body += format("p%d = matmul(h%d, w%d); r%d = relu(p%d); h%d = add(h%d, r%d); ", k, k, k, k, k, k + 1,
                   k == 7 ? last : k, k);
  }
  return text + "const o: f32[32,32] = seeded(0.25, 40); " + body + "m = matmul(h8, o); y = tanh(m); output y }";
}
TEST(Followed, WhatRoundingTheWeightsMovesIsNoErrorOfTheEngine) {
  const auto verified = [](int last, DType dtype) {
    judge::VerifyTerms terms;
    terms.seeds = {1};
    return judge::verify(subject(growing(last), growing(), dtype), terms).value();
  };
  const judge::Verification right = verified(7, DType::kF16);
  EXPECT_TRUE(right.passed) << right.text();
  ASSERT_EQ(right.outputs.size(), 1u);
  EXPECT_GT(right.outputs[0].difference.relative, 8 * unit_roundoff(DType::kF16))
      << "rounding moves too little: this test shows nothing";
  EXPECT_GT(right.outputs[0].stored_moves, 8 * unit_roundoff(DType::kF16));
  EXPECT_LT(right.worst, unit_roundoff(DType::kF16)) << "it is that against the model with its weights rounded";
  EXPECT_FALSE(verified(6, DType::kF16).passed);
  EXPECT_FALSE(verified(6, DType::kF32).passed);
}

TEST(Followed, WeightsOfFloat32AreNotRounded) {
  EXPECT_TRUE(verified_narrow({}, DType::kF32, 1).passed);
  EXPECT_FALSE(verified_narrow({5}, DType::kF32, 1).passed);
}

}  // namespace
}  // namespace peri::build
