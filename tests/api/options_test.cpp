// What the command line can ask of a build, a program can: verification without tuning, proofs, the timing cache, shape
// profiles, an end before the end; and what neither can do is refused by name.
// label: cpu
#include <gtest/gtest.h>
#include <unistd.h>
#include <peri/peri.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "tests/places.hpp"

namespace {

std::string model() { return std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx"; }

class Options : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("peri_options_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string in(const std::string& name) const { return folder_ + "/" + name; }

  // Quick ones: nothing is measured.
  static peri::BuildOptions untuned() {
    peri::BuildOptions o;
    o.tune = false;
    o.threads = 2;
    o.cache = false;
    o.proof = true;
    return o;
  }
  static std::string proof_of(const peri::BuildOptions& options) {
    auto engine = peri::Engine::build(model(), options);
    EXPECT_TRUE(engine.ok()) << engine.error().text;
    if (!engine.ok()) return "";
    auto text = engine->proof();
    EXPECT_TRUE(text.ok());
    return text.ok() ? *text : "";
  }
  static peri::Error refused(const peri::BuildOptions& options) {
    auto engine = peri::Engine::build(model(), options);
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? peri::Error{} : engine.error();
  }
  std::string folder_;
};

// The value of a member of a JSON text, as far as it stands on one line: the first called `key` behind `part`.
std::string member(const std::string& json, const std::string& part, const std::string& key) {
  const size_t from = json.find("\"" + part + "\":");
  const std::string label = "\"" + key + "\":";
  size_t at = from == std::string::npos ? from : json.find(label, from);
  if (at == std::string::npos) return "missing";
  at = json.find_first_not_of(' ', at + label.size());
  return json.substr(at, json.find_first_of(",\n}", at) - at);
}
size_t count(const std::string& json, const std::string& label) {
  size_t n = 0;
  for (size_t at = json.find(label); at != std::string::npos; at = json.find(label, at + 1)) ++n;
  return n;
}

TEST_F(Options, AnUntunedEngineIsVerifiedUnlessItIsSaid) {
  peri::BuildOptions o = untuned();
  const std::string checked = proof_of(o);
  EXPECT_EQ(member(checked, "verification", "verified"), "true");
  EXPECT_EQ(member(checked, "verification", "measured"), "false");
  EXPECT_EQ(member(checked, "engine", "judged"), "true");
  o.verify = false;
  const std::string unchecked = proof_of(o);
  EXPECT_EQ(member(unchecked, "verification", "verified"), "false");
  EXPECT_EQ(member(unchecked, "engine", "judged"), "false");
}

TEST_F(Options, AProgramOfBeforeNoVerifyChecksNothingWithoutTuning) {
  peri_build_options o = {};
  o.struct_size = sizeof o;
  o.no_tune = o.no_cache = o.proof = 1;
  std::string said;
  o.log_user = &said;
  o.log = [](void* user, peri_log_level, const char* line) { *static_cast<std::string*>(user) += line; };
  peri_engine* engine = nullptr;
  ASSERT_EQ(peri_engine_build(model().c_str(), &o, &engine), nullptr);
  peri_engine_free(engine);
  EXPECT_NE(said.find("right at"), std::string::npos) << said;
  said.clear();
  o.struct_size = offsetof(peri_build_options, no_verify);
  ASSERT_EQ(peri_engine_build(model().c_str(), &o, &engine), nullptr);
  peri_engine_free(engine);
  EXPECT_NE(said.find("nothing of it is verified"), std::string::npos) << said;
}

TEST_F(Options, TheProofStandsBesideTheEngine) {
  peri::BuildOptions o = untuned();
  o.proof = false;
  auto without = peri::Engine::build(model(), o);
  ASSERT_TRUE(without.ok()) << without.error().text;
  EXPECT_EQ(without->proof().error().kind, PERI_ERROR_USAGE);
  o.engine_path = in("a.engine");
  auto built = peri::Engine::build(model(), o);
  ASSERT_TRUE(built.ok()) << built.error().text;
  auto loaded = peri::Engine::load(o.engine_path);
  ASSERT_TRUE(loaded.ok());
  const std::string one = built->proof().value(), two = loaded->proof().value();
  EXPECT_GT(count(one, "\"chosen\""), 2u);
  EXPECT_EQ(one, two);
  std::filesystem::remove(o.engine_path + ".proof");
  EXPECT_TRUE(loaded->proof().ok()) << "it was read before";
  EXPECT_EQ(peri::Engine::load(o.engine_path)->proof().error().kind, PERI_ERROR_IO);
}

TEST_F(Options, TimesAreKeptInTheFolderThatIsNamed) {
  peri::BuildOptions o;
  o.threads = 1;
  o.provider = "peri";
  o.proof = true;
  o.cache_folder = in("times");
  EXPECT_EQ(member(proof_of(o), "tuner", "from_cache"), "0");
  EXPECT_FALSE(std::filesystem::is_empty(in("times")));
  EXPECT_GT(std::stoi(member(proof_of(o), "tuner", "from_cache")), 0);
  o.cache = false;
  EXPECT_EQ(member(proof_of(o), "tuner", "from_cache"), "0");
}

TEST_F(Options, AProfileHasASmallestAndALargestShape) {
  peri::BuildOptions o = untuned();
  o.dims = {{"batch", 4}};
  o.min_dims = {{"image.0", 2}};
  o.max_dims = {{"batch", 64}};
  const std::string proof = proof_of(o);
  EXPECT_EQ(member(proof, "holds_at", "batch"), "2");
  EXPECT_NE(proof.substr(proof.find("holds_at"), 200).find("\"batch\": 64"), std::string::npos);
  o.max_dims = {{"batch", 3}};
  EXPECT_NE(refused(o).text.find("largest size of dimension 'batch' is 3"), std::string::npos);
  o.max_dims = {{"width", 3}};
  EXPECT_NE(refused(o).text.find("batch"), std::string::npos) << "the known dimensions are listed";
}

TEST_F(Options, WhatIsNotThereIsRefusedByName) {
  peri::BuildOptions o = untuned();
  o.provider = "nobody";
  const peri::Error provider = refused(o);
  EXPECT_EQ(provider.kind, PERI_ERROR_USAGE);
  EXPECT_NE(provider.text.find("nobody"), std::string::npos);
  EXPECT_NE(provider.expected.find("reference"), std::string::npos) << provider.text;
  o = untuned();
  o.backend = "nowhere";
  EXPECT_NE(refused(o).text.find("nowhere"), std::string::npos);
  o = untuned();
  o.dtype = "f8";
  EXPECT_EQ(refused(o).kind, PERI_ERROR_USAGE);
  o = untuned(), o.disabled_passes = {"no_such_pass"};
  EXPECT_NE(refused(o).text.find("no_such_pass"), std::string::npos);
  o = untuned();
  o.threads = -1;
  EXPECT_EQ(refused(o).kind, PERI_ERROR_USAGE);
  o = untuned();
  o.lock_path = in("lock");
  o.locked_path = in("lock");
  EXPECT_EQ(refused(o).kind, PERI_ERROR_USAGE);
  o = untuned();
  o.engine_path = in("no/such/folder/a.engine");
  bool begun = false;
  o.progress = [&](size_t, size_t, const char*) { begun = true; };
  EXPECT_EQ(refused(o).kind, PERI_ERROR_IO);
  EXPECT_FALSE(begun) << "before the work";
}

TEST_F(Options, AModelIsInspectedBeforeItIsBuilt) {
  const auto found = peri::Engine::inspect(model());
  ASSERT_TRUE(found.ok()) << found.error().text;
  EXPECT_EQ(count(*found, "\"runs\":true"), 1u);
  EXPECT_GT(count(*found, "\"op\":"), 2u);
  EXPECT_EQ(member(*found, "at_dims", "batch"), "1");
  EXPECT_EQ(peri::Engine::inspect("/nonexistent.onnx").error().kind, PERI_ERROR_IO);
  peri::BuildOptions at;
  at.dims = {{"batch", 5}};
  const auto other = peri::Engine::inspect(model(), at);
  ASSERT_TRUE(other.ok()) << other.error().text;
  EXPECT_EQ(member(*other, "at_dims", "batch"), "5");
  const peri_dim dim = {"batch", 7};
  peri_build_options o = {};
  o.struct_size = sizeof o;
  o.dims = &dim;
  o.dim_count = 1;
  peri_report* report = nullptr;
  ASSERT_EQ(peri_model_inspect(model().c_str(), &o, &report), nullptr);
  EXPECT_EQ(member(peri_report_json(report), "at_dims", "batch"), "7");
  peri_report_free(report);
}

TEST_F(Options, AManifestIsAddedOrRefusedWithItsField) {
  const std::string triton = std::string(peri::tests::kSourceDir) + "/examples/triton/softmax_f16.json";
  EXPECT_EQ(peri_kernel_add(triton.c_str()), nullptr);
  EXPECT_EQ(peri_kernel_add(triton.c_str()), nullptr) << "the same again";
  for (const char* const wrong : {static_cast<const char*>(nullptr), "/nonexistent.json"}) {
    peri_error* const e = peri_kernel_add(wrong);
    ASSERT_NE(e, nullptr);
    EXPECT_EQ(peri_error_get_kind(e), wrong ? PERI_ERROR_IO : PERI_ERROR_USAGE);
    peri_error_free(e);
  }
}

TEST_F(Options, AManifestIsAddedInCpp) {
  EXPECT_FALSE(
      peri::add_kernel(std::string(peri::tests::kSourceDir) + "/examples/triton/softmax_f16.json").has_value());
  const auto refused = peri::add_kernel(model());
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->kind, PERI_ERROR_INVALID) << refused->text;
}

TEST_F(Options, AMisspeltKnobIsToldToTheLog) {
  peri::BuildOptions o = untuned();
  o.verify = o.proof = false;
  std::string said;
  o.hooks.log_user = &said;
  o.hooks.log = [](void* user, peri_log_level, const char* line) { *static_cast<std::string*>(user) += line; };
  setenv("PERI_CAHCE", "/nowhere", 1);
  const bool built = peri::Engine::build(model(), o).ok();
  unsetenv("PERI_CAHCE");
  EXPECT_TRUE(built);
  EXPECT_NE(said.find("did you mean PERI_CACHE?"), std::string::npos) << said;
  said.clear();
  EXPECT_TRUE(peri::Engine::build(model(), o).ok());
  EXPECT_EQ(said.find("PERI_"), std::string::npos) << said;
}

TEST_F(Options, ABuildThatIsStoppedGivesTheBestSoFar) {
  peri::BuildOptions o;
  o.threads = 1;
  o.cache = false;
  o.proof = true;
  o.stop = [] { return true; };
  std::string said;
  o.hooks.log_user = &said;
  o.hooks.log = [](void* user, peri_log_level, const char* line) { *static_cast<std::string*>(user) += line; };
  auto engine = peri::Engine::build(model(), o);
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  EXPECT_NE(said.find("interrupted: the best so far"), std::string::npos) << said;
  EXPECT_NE(engine->proof()->find("interrupted: the best so far"), std::string::npos);
  EXPECT_NE(said.find(" are not verified individually, the engine as a whole is not"), std::string::npos) << said;
}

// Steps that the timing cache knows are verified, and the engine, which nobody ran, is not.
TEST_F(Options, ABuildThatIsStoppedBeforeItRunsTheEngineSaysThatItIsNotVerified) {
  peri::BuildOptions o;
  o.threads = 1;
  ASSERT_TRUE(peri::Engine::build(model(), o).ok());
  o.stop = [] { return true; };
  std::string said;
  o.hooks.log_user = &said;
  o.hooks.log = [](void* user, peri_log_level, const char* line) { *static_cast<std::string*>(user) += line; };
  ASSERT_TRUE(peri::Engine::build(model(), o).ok());
  EXPECT_NE(said.find("interrupted: the best so far; all of "), std::string::npos) << said;
  EXPECT_NE(said.find(" verified individually, the engine as a whole is not"), std::string::npos) << said;
}

TEST_F(Options, WeightsAreCheckedWhereThatIsAsked) {
  peri::BuildOptions o = untuned();
  o.verify = false;
  o.engine_path = in("a.engine");
  ASSERT_TRUE(peri::Engine::build(model(), o).ok());
  peri::LoadOptions check;
  check.check_weights = true;
  EXPECT_TRUE(peri::Engine::load(o.engine_path, check).ok());
  std::fstream file(o.engine_path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-100, std::ios::end);
  const char old = static_cast<char>(file.get());
  file.seekp(-100, std::ios::end);
  file.put(static_cast<char>(old ^ 1));
  file.close();
  EXPECT_TRUE(peri::Engine::load(o.engine_path).ok());
  EXPECT_EQ(peri::Engine::load(o.engine_path, check).error().kind, PERI_ERROR_INVALID);
}

TEST_F(Options, AnEngineIsVerifiedAgainstItsSource) {
  peri::BuildOptions build = untuned();
  build.engine_path = in("a.engine");
  auto built = peri::Engine::build(model(), build);
  ASSERT_TRUE(built.ok()) << built.error().text;
  auto loaded = peri::Engine::load(build.engine_path);
  peri::VerifyOptions o;
  o.dims = {{"batch", 3}};
  o.seeds = {5, 6, 7};
  o.bisect = true;
  for (const peri::Engine* engine : {&*built, &*loaded}) {
    auto report = engine->verify(o);
    ASSERT_TRUE(report.ok()) << report.error().text;
    EXPECT_TRUE(report->passed) << report->outside;
    EXPECT_EQ(count(report->json, "\"seed\""), 3u);
    EXPECT_EQ(count(report->json, "[3,10]"), 3u);
    EXPECT_GT(count(report->json, "\"kernel\""), 2u) << "steps were judged";
  }
  peri::VerifyOptions steps;
  steps.dims = o.dims;
  steps.steps_only = true;
  auto alone = loaded->verify(steps);
  ASSERT_TRUE(alone.ok()) << alone.error().text;
  EXPECT_TRUE(alone->passed);
  EXPECT_EQ(count(alone->json, "\"seed\""), 0u) << "no output is compared";
  EXPECT_GT(count(alone->json, "\"kernel\""), 2u);
  for (const auto& set : std::initializer_list<std::function<void(peri::VerifyOptions&)>>{
           [&](auto& v) { v.peer_model = model(); }, [](auto& v) { v.max_error = 1e-3; },
           [](auto& v) { v.min_cosine = 0.9; }, [](auto& v) { v.max_change = 1; }, [](auto& v) { v.rtol = 1; },
           [](auto& v) { v.atol = 1; }, [](auto& v) { v.seeds = {1, 2}; }}) {
    peri::VerifyOptions with = steps;
    set(with);
    const auto refused = loaded->verify(with);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(std::string(refused.error().text).find(", and bisect = 2 "), std::string::npos) << refused.error().text;
  }
  o.max_error = std::numeric_limits<double>::denorm_min();
  const auto none = loaded->verify(o);
  ASSERT_TRUE(none.ok());
  EXPECT_NE(none->outside.find(" of its range, allowed 0;"), std::string::npos) << none->outside;
  o.max_error = 1e-12;
  auto strict = loaded->verify(o);
  ASSERT_TRUE(strict.ok());
  EXPECT_FALSE(strict->passed);
  EXPECT_NE(strict->outside.find("outside its budget"), std::string::npos) << strict->outside;
  EXPECT_EQ(count(strict->json, "\"passed\":false"), 1u);
  o.dims = {{"width", 3}};
  EXPECT_EQ(loaded->verify(o).error().kind, PERI_ERROR_USAGE);
}

TEST_F(Options, VerificationInC) {
  peri_build_options build = {};
  build.struct_size = sizeof build;
  build.no_tune = build.no_verify = 1;
  peri_engine* engine = nullptr;
  ASSERT_EQ(peri_engine_build(model().c_str(), &build, &engine), nullptr);
  EXPECT_EQ(peri_engine_verify(engine, nullptr, nullptr), nullptr);
  peri_verify_options o = {};
  o.struct_size = sizeof o;
  o.max_error = -1;
  peri_report* report = nullptr;
  peri_error* error = peri_engine_verify(engine, &o, &report);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_USAGE);
  EXPECT_EQ(report, nullptr);
  peri_error_free(error);
  o.max_error = 1e-12;
  error = peri_engine_verify(engine, &o, &report);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_ACCURACY);
  EXPECT_NE(std::string(peri_report_json(report)).find("\"passed\":false"), std::string::npos);
  peri_error_free(error);
  peri_report_free(report);
  peri_engine_free(engine);
  error = peri_engine_verify(nullptr, nullptr, nullptr);
  EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_USAGE);
  peri_error_free(error);
  const char* none = nullptr;
  error = peri_engine_proof(nullptr, &none);
  EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_USAGE);
  peri_error_free(error);
  EXPECT_STREQ(peri_report_json(nullptr), "");
  peri_report_free(nullptr);
}

}  // namespace
