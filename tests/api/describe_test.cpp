// What the command line takes and says beside a build, a program can have: the tuner's terms, what an engine is, where
// its time goes; and a struct of an older caller means what it meant.
// label: cpu
#include <gtest/gtest.h>
#include <unistd.h>
#include <peri/peri.hpp>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/places.hpp"

namespace {

std::string model() { return std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx"; }
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class Terms : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("peri_terms_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(folder_);
    quick_.tune = quick_.verify = quick_.cache = false;
    quick_.threads = 2;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static peri::Error refused(const peri::BuildOptions& options) {
    auto engine = peri::Engine::build(model(), options);
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? peri::Error{} : engine.error();
  }
  std::string folder_;
  peri::BuildOptions quick_;
};

TEST_F(Terms, ReachTheBuildFromCxx) {
  peri::BuildOptions o = quick_;
  o.io_dtype = "f8";
  EXPECT_TRUE(has(refused(o).text, "the option io_dtype is not an element type")) << refused(o).text;
  o = quick_;
  o.settings = 3;
  EXPECT_TRUE(has(refused(o).text, "settings is for tuning, and no_tune leaves it out")) << refused(o).text;
  o.tune = true;
  o.settings = 65;
  EXPECT_TRUE(has(refused(o).text, "number of settings")) << refused(o).text;
  o = quick_;
  o.budget = -1;
  EXPECT_TRUE(has(refused(o).text, "tuning time in seconds")) << refused(o).text;
  o.tune = true;
  o.budget = 1e-9;
  EXPECT_TRUE(has(refused(o).text, "expected 0, or 0.001 to 1e+06")) << refused(o).text;
  o = quick_;
  o.retune = true;
  EXPECT_TRUE(has(refused(o).text, "retune goes with neither")) << refused(o).text;
  o = quick_;
  o.budget = 3;
  EXPECT_TRUE(has(refused(o).text, "no_tune leaves it out")) << refused(o).text;
  o.tune = true;
  o.locked_path = folder_ + "/a.lock";
  EXPECT_TRUE(has(refused(o).text, "takes every choice from the lock file")) << refused(o).text;
  o.budget = 0;
  o.cache = true;
  o.retune = true;
  EXPECT_TRUE(has(refused(o).text, "the option retune is for tuning")) << refused(o).text;
}

TEST_F(Terms, AFileOfAnotherKindIsOverwrittenWhereThatIsAsked) {
  peri::BuildOptions o = quick_;
  o.engine_path = folder_ + "/notes.txt";
  std::ofstream(o.engine_path) << "notes";
  EXPECT_TRUE(has(refused(o).text, "notes.txt")) << refused(o).text;
  o.force = true;
  ASSERT_TRUE(peri::Engine::build(model(), o).ok());
  EXPECT_TRUE(peri::Engine::load(o.engine_path).ok());
}

// The struct as it was before io_dtype: what lies behind it is not read.
TEST_F(Terms, AnOlderCallersOptionsMeanWhatTheyMeant) {
  peri_build_options o = {};
  o.no_tune = o.no_verify = o.no_cache = 1;
  o.io_dtype = "f8";
  o.budget = -1;
  o.retune = 1;
  o.struct_size = offsetof(peri_build_options, io_dtype);
  peri_engine* engine = nullptr;
  peri_error* error = peri_engine_build(model().c_str(), &o, &engine);
  EXPECT_EQ(error, nullptr) << peri_error_get(error, PERI_ERROR_TEXT);
  peri_error_free(error);
  peri_engine_free(engine);
}

TEST_F(Terms, AnEngineSaysWhatItIs) {
  peri::BuildOptions o = quick_;
  o.dims = {{"batch", 3}};
  o.engine_path = folder_ + "/a.engine";
  auto built = peri::Engine::build(model(), o);
  ASSERT_TRUE(built.ok()) << built.error().text;
  const std::string said = built->describe().value();
  for (const char* part : {"\"batch\":3", "\"image\"", "f32[batch,1,8,8]", "\"backend\":\"cpu\"",
                           "\"takes_texts\":false", "\"steps_on_the_reference\":0"})
    EXPECT_TRUE(has(said, part)) << part << " in " << said;
  const std::string loaded = peri::Engine::load(o.engine_path)->describe().value();
  EXPECT_TRUE(has(loaded, "\"hash\"")) << loaded;
}

TEST_F(Terms, AnEngineIsExplainedByItsProof) {
  peri::BuildOptions o;
  o.threads = 1;
  o.provider = "peri";
  o.cache_folder = folder_;
  o.engine_path = folder_ + "/a.engine";
  auto built = peri::Engine::build(model(), o);
  ASSERT_TRUE(built.ok()) << built.error().text;
  auto loaded = peri::Engine::load(o.engine_path);
  for (const peri::Engine* engine : {&*built, &*loaded}) {
    const auto said = engine->explain();
    ASSERT_TRUE(said.ok()) << said.error().text;
    EXPECT_TRUE(has(*said, "\"total_ms\":") && has(*said, "\"floor_ms\":") && has(*said, "\"steps\":")) << *said;
  }
  auto without = peri::Engine::build(model(), quick_);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->explain().error().kind, PERI_ERROR_USAGE) << "the build made no proof";
}

}  // namespace
