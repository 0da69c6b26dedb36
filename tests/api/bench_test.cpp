// A program measures and compares as the command line does: what it gets is the object of peri bench, a regression and
// too few processes are errors of their kinds with the report beside them.
// label: cpu
#include <gtest/gtest.h>
#include <peri/peri.hpp>

#include <filesystem>

#include "tests/places.hpp"

namespace {

peri::Engine engine() {
  peri::BuildOptions o;
  o.tune = o.cache = false;
  o.threads = 1;
  auto made = peri::Engine::build(std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx", o);
  EXPECT_TRUE(made.ok()) << made.error().text;
  return std::move(made).value();
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Bench, ReportsARecord) {
  const peri::Engine e = engine();
  size_t told = 0;
  peri::BenchOptions o;
  o.seconds = 1e-9;
  o.max_runs = 6;
  o.dims = {{"batch", 3}};
  o.layers = true;
  o.progress = [&](size_t, size_t, const char*) { ++told; };
  const auto text = e.bench(o);
  ASSERT_TRUE(text.ok()) << text.error().text;
  EXPECT_TRUE(holds(*text, "\"items_per_run\":3,")) << *text;
  EXPECT_TRUE(holds(*text, "\"processes\":[{\"samples\":5,")) << *text;
  EXPECT_TRUE(holds(*text, "\"layers\":[{")) << *text;
  EXPECT_TRUE(holds(*text, "\"complete\":true")) << *text;
  EXPECT_GT(told, 0u);
  EXPECT_TRUE(peri::compare_benches(*text, *text).ok()) << "what one call writes the other reads";
  o.stop = [] { return true; };
  EXPECT_TRUE(holds(*e.bench(o), "\"complete\":false"));
  o.dims = {{"bacth", 3}};
  EXPECT_EQ(e.bench(o).error().kind, PERI_ERROR_USAGE);
  o.dims = {};
  o.processes = -1;
  EXPECT_EQ(e.bench(o).error().kind, PERI_ERROR_USAGE);
}

// Fresh processes open a file: that of the engine, wherever the program is and whatever has its path by then.
TEST(Bench, MeasuresTheEngineThatWasLoaded) {
  const std::string folder = testing::TempDir() + "/bench_of_loaded", path = folder + "/e.engine";
  std::filesystem::create_directories(folder);
  peri::BuildOptions build;
  build.tune = build.cache = false;
  build.threads = 1;
  const std::string model = std::string(peri::tests::kSourceDir) + "/models/digits_";
  build.engine_path = folder + "/other.engine";
  ASSERT_TRUE(peri::Engine::build(model + "transformer.onnx", build).ok());
  build.engine_path = path;
  ASSERT_TRUE(peri::Engine::build(model + "cnn.onnx", build).ok());
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  const auto loaded = peri::Engine::load("e.engine");
  std::filesystem::current_path(before);
  ASSERT_TRUE(loaded.ok()) << loaded.error().text;
  peri::BenchOptions o;
  o.seconds = 1e-3;
  o.warm_up = 1e-3;
  const auto here = loaded->bench(o);
  ASSERT_TRUE(here.ok()) << here.error().text;
  o.processes = 1;
  const auto identity = [](const std::string& text) {
    return text.substr(text.find("\"identity\""), sizeof("\"identity\":\"0123456789abcdef\"") - 1);
  };
  const auto again = peri::Engine::load(path);
  ASSERT_TRUE(again.ok() && loaded->proof().ok());
  const auto elsewhere = loaded->bench(o);
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.error().text;
  EXPECT_EQ(identity(*elsewhere), identity(*here));
  std::filesystem::rename(folder + "/other.engine", path);
  std::filesystem::rename(folder + "/other.engine.proof", path + ".proof");
  EXPECT_TRUE(loaded->proof().ok()) << "read before";
  EXPECT_EQ(again->proof().error().kind, PERI_ERROR_REFUSED) << "that of another engine is beside the file";
  const auto replaced = loaded->bench(o);
  ASSERT_TRUE(replaced.ok()) << replaced.error().text;
  EXPECT_EQ(identity(*replaced), identity(*here));
  const auto other = peri::Engine::load(path);
  ASSERT_TRUE(other.ok()) << other.error().text;
  EXPECT_NE(identity(*other->bench(o)), identity(*here));
}

// A record of so many processes of five equal samples, each a little slower than the one before.
std::string record(double ms, int processes) {
  std::string rows, samples;
  for (int p = 0; p < processes; ++p) {
    const char* const comma = p ? "," : "";
    rows += std::string(comma) + R"({"samples":5,"wall_s":1,"load_ms":1,"first_run_ms":1,"conditions":{}})";
    for (int k = 0; k < 5; ++k)
      samples += (samples.empty() ? "" : ",") + std::to_string(ms * (1 + 0.001 * static_cast<double>(p)));
  }
  return R"({"form":2,"model":"m","identity":"0123456789abcdef","threads":1,"dims":{},"tuned_for_dims":true,)"
         R"("items_per_run":1,"arena_bytes":0,"complete":true,"unstable":"","disturbed":[],"processes":[)" +
         rows + "],\"samples\":[" + samples + "]}";
}

TEST(Bench, RegressionsAndTooLittleAreErrors) {
  const auto same = peri::compare_benches(record(1, 5), record(1, 5));
  ASSERT_TRUE(same.ok()) << same.error().text;
  EXPECT_TRUE(same->passed) << same->outside;
  const auto slower = peri::compare_benches(record(1, 5), record(2, 5));
  ASSERT_TRUE(slower.ok()) << slower.error().text;
  EXPECT_FALSE(slower->passed);
  EXPECT_TRUE(holds(slower->json, "\"verdict\":\"slower\"")) << slower->json;
  peri_error* e = peri_bench_compare(record(1, 5).c_str(), record(2, 5).c_str(), 1.03, nullptr);
  EXPECT_EQ(peri_error_get_kind(e), PERI_ERROR_REGRESSION);
  peri_error_free(e);
  e = peri_bench_compare(record(1, 1).c_str(), record(2, 1).c_str(), 1.03, nullptr);
  EXPECT_EQ(peri_error_get_kind(e), PERI_ERROR_UNSTABLE);
  EXPECT_STREQ(peri_error_get(e, PERI_ERROR_REMEDY), "measure both with peri_bench_options.processes of 5 or more");
  peri_error_free(e);
  EXPECT_EQ(peri::compare_benches("{}", record(1, 5)).error().kind, PERI_ERROR_INVALID);
  EXPECT_EQ(peri::compare_benches("{\"form\": 1}", record(1, 5)).error().kind, PERI_ERROR_UNSUPPORTED);
  EXPECT_EQ(peri::compare_benches(record(1, 5), record(1, 5), 0.5).error().kind, PERI_ERROR_USAGE);
}

}  // namespace
