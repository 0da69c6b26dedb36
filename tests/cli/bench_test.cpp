// peri bench on a trained model: its object holds what docs/measuring.md lists, layers too; fresh processes give
// samples each; an engine and a model that it was made of are one model, and another is another.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/json.hpp"
#include "bench/compare.hpp"
#include "cli/console/arguments.hpp"
#include "tests/places.hpp"

namespace peri::cli {
namespace {

std::string model(const std::string& name) { return std::string(tests::kSourceDir) + "/models/" + name + ".onnx"; }

Result<Outcome> command(std::string_view name, std::vector<std::string> words) {
  words.emplace_back("--quiet");
  std::vector<char*> raw;
  for (std::string& w : words) raw.push_back(w.data());
  PERI_ASSIGN(const Arguments arguments, parse_arguments(*find(name), raw));
  return find(name)->run(arguments);
}

class Bench : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("peri_bench_test_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(folder_);
    engine_ = folder_ + "/digits.engine";
    const auto built = command("build", {model("digits_cnn"), "-o", engine_, "--no-tune", "--no-cache", "--dims",
                                         "batch=4", "--threads", "1"});
    ASSERT_TRUE(built.ok()) << built.error().text();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // With few samples, which may disagree as they like.
  Result<bench::Record> measured(const std::string& what, std::vector<std::string> more = {}) {
    more.insert(more.begin(),
                {what, "--seconds", "0", "--iterations", "7", "--threads", "1", "--tolerance", "1000000"});
    PERI_ASSIGN(const Outcome outcome, command("bench", more));
    EXPECT_EQ(outcome.code, 0) << outcome.summary;
    return bench::read_record(outcome.json);
  }
  std::string folder_, engine_;
};

TEST_F(Bench, TellsWhatRanAndItsLayers) {
  const auto r = measured(engine_, {"--layers", "--dims", "batch=2"});
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->dims, (DimBinding{{"batch", 2}}));
  EXPECT_FALSE(r->tuned);
  EXPECT_EQ(r->items_per_run, 2);
  EXPECT_EQ(r->identity.size(), 16u);
  EXPECT_EQ(r->samples(), 5u) << "the least number of samples";
  EXPECT_GT(r->layers.size(), 5u);
  EXPECT_GT(r->layer_runs, 0);
  double wall_ms = 0;
  for (const double ms : r->all_samples()) wall_ms += ms;
  EXPECT_GE(r->processes[0].wall_s * 1e3, wall_ms) << "the wall clock holds all runs";
  EXPECT_LE(r->runs_per_s(), 5e3 / wall_ms);
}

TEST_F(Bench, FreshProcessesOfAnEngineAndOfAModel) {
  const auto engine = measured(engine_, {"--repeat", "2"});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  ASSERT_EQ(engine->processes.size(), 2u);
  EXPECT_EQ(engine->processes[1].samples_ms.size(), 5u);
  EXPECT_EQ(engine->dims, (DimBinding{{"batch", 4}}));
  const auto built =
      measured(model("digits_cnn"), {"--repeat", "2", "--no-tune", "--no-cache", "--dims", "batch=4", "--layers"});
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(built->processes.size(), 2u);
  EXPECT_GT(built->layers.size(), 5u);
  EXPECT_EQ(built->identity, engine->identity);
  EXPECT_TRUE(bench::compare(*engine, *built, 1.03).ok());
}

TEST_F(Bench, AnotherModelIsAnother) {
  const auto cnn = measured(engine_), transformer = measured(model("digits_transformer"), {"--no-tune", "--no-cache"});
  ASSERT_TRUE(transformer.ok()) << transformer.error().text();
  EXPECT_EQ(cnn->model, transformer->model) << "exporters call every graph the same";
  EXPECT_NE(cnn->identity, transformer->identity);
  EXPECT_FALSE(bench::compare(*cnn, *transformer, 1.03).ok());
}

}  // namespace
}  // namespace peri::cli
