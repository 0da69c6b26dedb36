// A build says what it did: what it expects, what it tried, what it rejected and why. What was known before is found
// anew where that is asked for.
// label: cpu
#include "build/summary.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/places.hpp"

namespace peri::build {
namespace {

std::string all(const BuildSummary& s) {
  std::string out;
  for (const std::string& line : summary_lines(s)) out += line + "\n";
  return out;
}

TEST(Summary, TellsWhatWasKnownAndWhatWasFoundAnew) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("peri_summary_" + std::to_string(getpid()))).string();
  std::filesystem::create_directories(folder);
  Request r;
  r.model = std::string(tests::kSourceDir) + "/models/digits_cnn.onnx";
  r.threads = 1;
  r.cache_folder = folder;
  r.engine_path = folder + "/digits.engine";
  const auto built = [&] {
    auto made = make_engine(r);
    EXPECT_TRUE(made.ok()) << made.error().text();
    return summary_of(*made, r.engine_path);
  };
  const BuildSummary first = built(), second = built();
  r.retune = true;
  const BuildSummary anew = built();
  r.retune = false;
  const BuildSummary after = built();
  EXPECT_EQ(first.from_cache, 0);
  EXPECT_EQ(anew.from_cache, 0) << "nothing that was known is believed";
  EXPECT_GT(first.tried, 10);
  EXPECT_EQ(second.from_cache, second.tried);
  EXPECT_EQ(after.from_cache, after.tried) << "what was found anew is kept";
  EXPECT_TRUE(first.predicted);
  EXPECT_GT(first.predicted_ms, 0);
  EXPECT_GT(first.worst_error, 0);
  EXPECT_LE(first.worst_error, 1);
  EXPECT_GT(first.engine_bytes, first.weight_bytes);
  EXPECT_NE(all(second).find("known from the timing cache"), std::string::npos) << all(second);
  EXPECT_NE(all(first).find("peri explain " + r.engine_path), std::string::npos) << all(first);
  std::filesystem::remove_all(folder);
}

TEST(Summary, RejectionsHaveTheirReasons) {
  Made made;
  lower::StepReport step;
  step.name = "conv1";
  step.key = "k";
  step.chosen = "good@1 {}";
  step.evidence.max_error = 0.25;
  for (int k = 0; k < 7; ++k) {
    tune::Evidence wrong;
    wrong.rejected = "answer " + std::to_string(k) + " is wrong";
    step.others.emplace_back("bad@" + std::to_string(k) + " {}", wrong);
  }
  made.built.compiled.steps.push_back(step);
  made.built.refused.push_back({"conv2", "key", "late@1 {}", "the engine's answer is wrong"});
  const BuildSummary s = summary_of(made, "");
  EXPECT_EQ(s.rejected.size(), 8u);
  EXPECT_FALSE(s.predicted) << "the step has no time";
  const std::string text = all(s);
  EXPECT_NE(text.find("conv1: bad@0 {}: answer 0 is wrong"), std::string::npos) << text;
  EXPECT_NE(text.find("and 3 more"), std::string::npos) << text;
  EXPECT_NE(text.find("0.25 of its bound, in 'conv1' by good@1 {}"), std::string::npos) << text;
  EXPECT_EQ(text.find("engine "), std::string::npos) << "there is no file";
  JsonWriter w;
  write_summary(w, s);
  const auto json = parse_json(w.take());
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->get_array("rejected").value()->size(), 8u);
  EXPECT_EQ(json->get_array("rejected").value()->back().get_string("why").value(), "the engine's answer is wrong");
  EXPECT_EQ(json->find("predicted_ms"), nullptr);
}

}  // namespace
}  // namespace peri::build
