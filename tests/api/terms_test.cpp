// What a program asks of an engine beside a run holds: limits of its sizes, constants for inputs, a verification that
// ends when it is asked to, inputs of its own.
// label: cpu
#include <gtest/gtest.h>
#include <peri/peri.hpp>

#include <cmath>

#include "tests/places.hpp"

namespace {

std::string model() { return std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx"; }

peri::BuildOptions quick() {
  peri::BuildOptions o;
  o.tune = false;
  o.verify = false;
  o.cache = false;
  o.threads = 2;
  return o;
}

peri::Error refused(const peri::BuildOptions& options) {
  auto engine = peri::Engine::build(model(), options);
  EXPECT_FALSE(engine.ok());
  return engine.ok() ? peri::Error{} : engine.error();
}

bool says(const std::string& json, const std::string& text) { return json.find(text) != std::string::npos; }

TEST(CallTerms, AProfileIsALimitOfRuns) {
  peri::BuildOptions o = quick();
  o.min_dims = {{"batch", 2}};
  o.max_dims = {{"batch", 4}};
  auto engine = peri::Engine::build(model(), o);
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  EXPECT_TRUE(says(*engine->describe(), R"("at_least":{"batch":2})"));
  EXPECT_TRUE(says(*engine->describe(), R"("at_most":{"batch":4})"));
  auto session = peri::Session::create(*engine);
  for (const int64_t batch : {1, 2, 4, 5}) {
    const std::vector<float> image(static_cast<size_t>(64 * batch));
    const auto made = session->run({peri::View::of(std::span<const float>(image), {batch, 1, 8, 8})});
    if (batch == 2 || batch == 4) {
      EXPECT_TRUE(made.ok());
      continue;
    }
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, PERI_ERROR_REFUSED);
    EXPECT_EQ(made.error().expected, "2 to 4");
    EXPECT_EQ(made.error().found, std::to_string(batch));
  }
}

TEST(CallTerms, AVerificationEndsWhenItIsStopped) {
  peri::BuildOptions o = quick();
  auto engine = peri::Engine::build(model(), o);
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  peri::VerifyOptions terms;
  terms.dims = {{"batch", 8000}};  // many seconds of the reference
  terms.threads = 2;
  int asked = 0;
  terms.stop = [&asked] { return ++asked > 20; };
  const auto made = engine->verify(terms);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, PERI_ERROR_CANCELLED);
  EXPECT_LE(asked, 25) << "it went on";
}

TEST(CallTerms, AVerificationAndABenchTakeInputsOfTheCallers) {
  peri::BuildOptions o = quick();
  auto engine = peri::Engine::build(model(), o);
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  std::vector<float> image(3 * 64, 0.5f);
  peri::VerifyOptions terms;
  terms.inputs = {peri::View::of(std::span<const float>(image), {3, 1, 8, 8})};
  auto report = engine->verify(terms);
  ASSERT_TRUE(report.ok()) << report.error().text;
  EXPECT_TRUE(report->passed);
  EXPECT_NE(report->json.find("[3,10]"), std::string::npos) << report->json;
  EXPECT_FALSE(says(report->json, "\"seed\":1"));
  image[7] = NAN;
  report = engine->verify(terms);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->passed) << "it judged other inputs";
  terms.seeds = {1};
  EXPECT_EQ(engine->verify(terms).error().kind, PERI_ERROR_USAGE);
  terms = {};
  terms.min_cosine = 2;
  EXPECT_EQ(engine->verify(terms).error().kind, PERI_ERROR_USAGE);
  terms.min_cosine = 0;
  for (double peri::VerifyOptions::* const part :
       {&peri::VerifyOptions::rtol, &peri::VerifyOptions::atol, &peri::VerifyOptions::max_error}) {
    terms.*part = INFINITY;
    const auto refused = engine->verify(terms).error();
    EXPECT_EQ(refused.kind, PERI_ERROR_USAGE) << "nothing exceeds it";
    EXPECT_FALSE(refused.expected.empty()) << refused.text;
    EXPECT_EQ(refused.found, "inf") << refused.text;
    terms.*part = 0;
  }
  terms.atol = terms.rtol = 1e-30;
  report = engine->verify(terms);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->json.find("\"l0\":0,"), std::string::npos) << "every element differs by that";
  peri::BenchOptions bench;
  bench.inputs = {peri::View::of(std::span<const float>(image), {3, 1, 8, 8})};
  bench.seconds = 0.02;
  bench.warm_up = 0.001;
  bench.tolerance = 1e6;
  const auto measured = engine->bench(bench);
  ASSERT_TRUE(measured.ok()) << measured.error().text;
  EXPECT_TRUE(says(*measured, R"("dims":{"batch":3})")) << *measured;
  bench.dims = {{"batch", 3}};
  EXPECT_EQ(engine->bench(bench).error().kind, PERI_ERROR_USAGE);
}

TEST(CallTerms, AnInputBecomesAConstant) {
  peri::BuildOptions o = quick();
  o.fixed = {{"image", "1.5"}};
  const peri::Error shaped = refused(o);  // its shape is open: a scalar is none of it
  EXPECT_NE(shaped.text.find("image"), std::string::npos) << shaped.text;
  o.fixed = {{"picture", "1"}};
  EXPECT_NE(refused(o).text.find("picture"), std::string::npos);
  peri_build_options raw = {};
  raw.struct_size = sizeof raw;
  raw.fixed_count = 1;
  peri_engine* engine = nullptr;
  peri_error* e = peri_engine_build(model().c_str(), &raw, &engine);
  ASSERT_NE(e, nullptr);
  EXPECT_EQ(peri_error_get_kind(e), PERI_ERROR_USAGE);
  peri_error_free(e);
  o = quick();
  o.max_iterations = -1;
  EXPECT_EQ(refused(o).kind, PERI_ERROR_USAGE);
  o.max_iterations = 5;
  o.strict_placement = true;
  EXPECT_TRUE(peri::Engine::build(model(), o).ok());
}

}  // namespace
