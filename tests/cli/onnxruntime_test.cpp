// label: cpu
// peri verify --onnxruntime agrees on a trained model and on an engine made of it, and says what is missing where
// Python or the package is.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/console/arguments.hpp"
#include "tests/places.hpp"

namespace peri::cli {
namespace {

const std::string kModel = std::string(tests::kSourceDir) + "/models/digits_cnn.onnx";

Result<Outcome> command(std::string_view name, std::vector<std::string> words) {
  words.emplace_back("--quiet");
  std::vector<char*> raw;
  for (std::string& w : words) raw.push_back(w.data());
  PERI_ASSIGN(const Arguments arguments, parse_arguments(*find(name), raw));
  return find(name)->run(arguments);
}
std::string text_of(const Result<Outcome>& r) { return r.ok() ? "passed" : r.error().text(); }

class OnnxRuntime : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("peri_peer_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(folder_);
    use(std::string(tests::kSourceDir) + "/.venv/bin/python");
  }
  void TearDown() override {
    unsetenv("PERI_PYTHON");
    std::filesystem::remove_all(folder_);
  }
  static void use(const std::string& python) { setenv("PERI_PYTHON", python.c_str(), 1); }
  std::string folder_;
};

TEST_F(OnnxRuntime, AgreesOnAModelAndItsEngine) {
  const auto model = command("verify", {kModel, "--onnxruntime", "--dims", "batch=3", "--no-tune", "--no-cache"});
  ASSERT_TRUE(model.ok()) << text_of(model);
  EXPECT_EQ(model->code, 0) << model->summary;
  const auto json = parse_json(model->json);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->get_string("against", "").value(), "ONNX Runtime");
  EXPECT_EQ((*json->get("outputs"))->items().size(), 2u);
  EXPECT_LT((*json->get("outputs"))->items()[0].get_double("of_change").value(), 1e-3);

  const std::string engine = folder_ + "/digits.engine";
  ASSERT_TRUE(command("build", {kModel, "-o", engine, "--no-tune", "--no-cache"}).ok());
  EXPECT_NE(text_of(command("verify", {engine, "--onnxruntime"})).find("--model"), std::string::npos);
  const auto held = command("verify", {engine, "--onnxruntime", "--model", kModel});
  ASSERT_TRUE(held.ok()) << text_of(held);
  EXPECT_EQ(held->code, 0) << held->summary;
  const auto strict = command("verify", {engine, "--onnxruntime", "--model", kModel, "--max-change", "1e-12"});
  ASSERT_TRUE(strict.ok()) << text_of(strict);
  EXPECT_EQ(strict->code, 3) << strict->summary;
}

TEST_F(OnnxRuntime, SaysWhatIsMissing) {
  const auto verify = [] { return text_of(command("verify", {kModel, "--onnxruntime", "--no-tune", "--no-cache"})); };
  const std::string python = folder_ + "/python";
  ASSERT_TRUE(write_file_atomic(python, "#!/bin/sh\necho \"No module named 'onnxruntime'\" >&2\nexit 42\n").ok());
  ASSERT_EQ(chmod(python.c_str(), 0755), 0);
  use(python);
  EXPECT_NE(verify().find("No module named 'onnxruntime'"), std::string::npos) << verify();
  EXPECT_NE(verify().find("pip install onnxruntime"), std::string::npos);
  use(folder_ + "/none");
  EXPECT_NE(verify().find("PERI_PYTHON"), std::string::npos) << verify();
}

}  // namespace
}  // namespace peri::cli
