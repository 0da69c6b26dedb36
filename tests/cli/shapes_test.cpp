// Sizes as typed reach the build: tuned ones, the smallest and the largest; what contradicts is refused by name, what
// an engine was not tuned for is said, an interrupted build still makes an engine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "cli/console/arguments.hpp"
#include "cli/console/model.hpp"
#include "tests/places.hpp"

namespace peri::cli {
namespace {

const std::string kModel = std::string(tests::kSourceDir) + "/models/digits_cnn.onnx";

Result<Outcome> command(std::string_view name, std::vector<std::string> words) {
  const Command* c = find(name);
  if (!c) return internal_error("no command");
  words.emplace_back("--quiet");
  std::vector<char*> raw;
  for (std::string& w : words) raw.push_back(w.data());
  PERI_ASSIGN(const Arguments arguments, parse_arguments(*c, raw));
  return c->run(arguments);
}

class Shapes : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("peri_shapes_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Result<Outcome> build(const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> words = {kModel, "-o", folder_ + "/" + name, "--no-tune", "--no-cache"};
    words.insert(words.end(), more.begin(), more.end());
    return command("build", words);
  }
  std::string error_of(std::vector<std::string> more) {
    const auto made = build("refused", std::move(more));
    return made.ok() ? "" : made.error().text();
  }
  std::string bytes(const std::string& name) const { return read_file(folder_ + "/" + name, 1 << 28).value(); }
  std::string folder_;
};

TEST_F(Shapes, AreTunedForAndChecked) {
  ASSERT_TRUE(build("a", {"--shapes", "image:4x1x8x8"}).ok());
  ASSERT_TRUE(build("b", {"--opt-shapes", "image:4x1x8x8"}).ok());
  EXPECT_EQ(bytes("a"), bytes("b"));
  EXPECT_NE(error_of({"--shapes", "image:4x1x9x8"}).find("axis 'image.2' is fixed"), std::string::npos);
  EXPECT_NE(error_of({"--shapes", "image:4xx8"}).find("--shapes has no size there"), std::string::npos);
  EXPECT_NE(error_of({"--max-shapes", "image:4y8"}).find("--max-shapes has no size there"), std::string::npos);
  EXPECT_NE(error_of({"--dims", "batch=-1"}).find("--dims has no size there"), std::string::npos);
  EXPECT_NE(error_of({"--dims", "batc=4"}).find("no dimension 'batc'"), std::string::npos);
}

TEST_F(Shapes, OfAProfileLieInOrder) {
  const std::vector<std::string> wide = {"--min-shapes", "image:2x1x8x8", "--dims",
                                         "batch=4",      "--max-shapes",  "image:64x1x8x8"};
  EXPECT_EQ(error_of(wide), "");
  EXPECT_NE(read_file(folder_ + "/refused.proof", 1 << 28).value().find("\"batch\": 64"), std::string::npos);
  EXPECT_EQ(error_of({"--min-shapes", "image:2x1x8x8"}), "") << "tuned for 2";
  EXPECT_NE(
      error_of({"--min-shapes", "image:2x1x8x8", "--dims", "batch=1"}).find("smallest size of dimension 'batch' is 2"),
      std::string::npos);
  EXPECT_NE(
      error_of({"--max-shapes", "image:2x1x8x8", "--dims", "batch=4"}).find("largest size of dimension 'batch' is 2"),
      std::string::npos);
}

TEST_F(Shapes, OfAProfileStandInTheLock) {
  const std::string lock = folder_ + "/lock";
  ASSERT_TRUE(build("a", {"--dims", "batch=4", "--max-shapes", "image:64x1x8x8", "--lock", lock}).ok());
  ASSERT_TRUE(build("b", {"--locked", lock}).ok());
  EXPECT_EQ(bytes("a"), bytes("b"));
  EXPECT_NE(error_of({"--locked", lock, "--max-shapes", "image:32x1x8x8"}).find("other smallest and largest shapes"),
            std::string::npos);
}

TEST_F(Shapes, WeightsAreStoredInTheTypeAskedFor) {
  ASSERT_TRUE(build("wide", {"--dtype", "f32"}).ok());
  for (const char* dtype : {"f16", "bf16"}) {
    ASSERT_TRUE(build("narrow", {"--dtype", dtype}).ok());
    EXPECT_LT(bytes("narrow").size() * 100, bytes("wide").size() * 60);
    const auto verified = command("verify", {folder_ + "/narrow"});
    ASSERT_TRUE(verified.ok()) << verified.error().text();
    EXPECT_NE(verified->json.find("\"precision\":\"" + std::string(dtype) + "\""), std::string::npos) << verified->json;
  }
  EXPECT_EQ(build("refused", {"--dtype", "f8"}).error().kind, ErrorKind::kUsage);
}

TEST_F(Shapes, ThatAnEngineWasNotTunedForAreTold) {
  ASSERT_TRUE(build("a", {"--dims", "batch=4"}).ok());
  const auto bench = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {folder_ + "/a", "--iterations", "1", "--seconds", "0"};
    words.insert(words.end(), more.begin(), more.end());
    const auto r = command("bench", words);
    return r.ok() ? r->json : r.error().text();
  };
  EXPECT_NE(bench({}).find("\"tuned_for_dims\":true"), std::string::npos);
  EXPECT_NE(bench({"--dims", "batch=5"}).find("\"tuned_for_dims\":false"), std::string::npos);
  EXPECT_NE(bench({"--shapes", "image:6x1x8x8"}).find("\"batch\":6"), std::string::npos);
}

TEST_F(Shapes, RunChecksTheWeightsOfAnEngine) {
  ASSERT_TRUE(build("a", {}).ok());
  const auto run = [&](std::string path) { return command("run", {path, "--check", "--input", "image=random:1"}); };
  EXPECT_TRUE(run(folder_ + "/a").ok());
  std::string damaged = bytes("a");
  damaged[damaged.size() - 100] = static_cast<char>(damaged[damaged.size() - 100] ^ 1);
  ASSERT_TRUE(write_file_atomic(folder_ + "/a", damaged).ok());
  EXPECT_FALSE(run(folder_ + "/a").ok());
  EXPECT_EQ(run(kModel).error().kind, ErrorKind::kUsage);
}

// Compiles and stops after `problems` questions of the tuner.
Result<compile::Compiled> stopped_after(int questions) {
  compile::Options o;
  o.model = kModel;
  o.tune.budget_ms = 1;
  o.tune.stop = [left = questions]() mutable { return left-- <= 0; };
  return compile::compile(o);
}

TEST(Interruption, LeavesTheBestSoFar) {
  const auto at_once = stopped_after(0), later = stopped_after(20);
  ASSERT_TRUE(at_once.ok()) << at_once.error().text();
  ASSERT_TRUE(later.ok()) << later.error().text();
  EXPECT_GT(at_once->tuned.untried, later->tuned.untried);
  EXPECT_GT(later->tuned.untried, 0);
  const auto proven = [](const compile::Compiled& c) {
    int64_t n = 0;
    for (const auto& s : c.steps) n += s.evidence.max_error >= 0;
    return n;
  };
  EXPECT_EQ(proven(*at_once), 0);
  EXPECT_GT(proven(*later), 0);
  EXPECT_EQ(at_once->program.steps.size(), later->program.steps.size());
}

}  // namespace
}  // namespace peri::cli
