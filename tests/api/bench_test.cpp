// A program measures and compares as the command line does: what it gets is the object of peri bench, a regression and
// too few processes are errors of their kinds with the report beside them.
// label: cpu
#include <gtest/gtest.h>
#include <peri/peri.hpp>

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
  peri_error_free(e);
  EXPECT_EQ(peri::compare_benches("{}", record(1, 5)).error().kind, PERI_ERROR_INVALID);
  EXPECT_EQ(peri::compare_benches("{\"form\": 1}", record(1, 5)).error().kind, PERI_ERROR_UNSUPPORTED);
  EXPECT_EQ(peri::compare_benches(record(1, 5), record(1, 5), 0.5).error().kind, PERI_ERROR_USAGE);
}

}  // namespace
