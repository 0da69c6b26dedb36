// Tensors of strings through the C and C++ interfaces: texts of the caller go in, those of an output are read in memory
// of the session, and what a caller may get wrong is named.
// label: cpu
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "peri/dlpack.h"
#include "peri/peri.hpp"
#include "tests/onnx/words_model.hpp"
#include "tests/places.hpp"

namespace {

class Strings : public testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() / ("peri_strings_" + std::to_string(getpid()) + ".onnx");
    std::ofstream(file_, std::ios::binary) << peri::onnx::tests::words_model();
    peri::BuildOptions options;
    options.tune = options.verify = options.cache = false;
    options.threads = 1;
    engine_.emplace(peri::Engine::build(file_.string(), options));
    ASSERT_TRUE(engine_->ok()) << engine_->error().text;
    ASSERT_EQ(peri_session_create((*engine_)->handle(), 1, &session_), nullptr);
  }
  void TearDown() override {
    peri_session_free(session_);
    std::filesystem::remove(file_);
  }
  // The text of the error of a run on this input; "" for none.
  std::string refused(const peri_tensor& in, peri_error_kind kind, peri_tensor upper = {sizeof(peri_tensor)}) {
    peri_tensor out[] = {upper, {sizeof(peri_tensor)}};
    peri_error* const e = peri_session_run(session_, &in, 1, out, 2, nullptr);
    if (!e) return "";
    EXPECT_EQ(peri_error_get_kind(e), kind);
    EXPECT_STREQ(peri_error_get(e, PERI_ERROR_NODE), upper.data ? "upper" : "words");
    std::string text = peri_error_get(e, PERI_ERROR_TEXT);
    peri_error_free(e);
    return text;
  }
  std::filesystem::path file_;
  std::optional<peri::Result<peri::Engine>> engine_;
  peri_session* session_ = nullptr;
};

peri_tensor tensor_of(std::vector<peri_string>& texts, const std::vector<int64_t>& dims) {
  return {sizeof(peri_tensor),
          PERI_STRING,
          PERI_DEVICE_HOST,
          dims.data(),
          dims.size(),
          texts.data(),
          texts.size() * sizeof(peri_string)};
}

TEST_F(Strings, GoInAndComeOut) {
  auto session = peri::Session::create(**engine_);
  ASSERT_TRUE(session.ok());
  const std::vector<std::string> words = {"b", "", std::string("a\0b", 3), "gr\xc3\xbc\xc3\x9f"};
  std::vector<peri_string> texts = peri::strings_of(words);
  texts[1].data = nullptr;
  const auto made = session->run({peri::View::of(std::span(texts), {4})});
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_EQ(made->at(0).dims, (std::vector<int64_t>{4}));
  EXPECT_EQ(made->at(0).bytes, 4 * sizeof(peri_string));
  const std::vector<std::string> upper = peri::texts_of(made->at(0));
  EXPECT_EQ(upper[0], "B");
  EXPECT_EQ(upper[1], "");
  EXPECT_EQ(upper[2], std::string("A\0B", 3)) << "a NUL ends no text";
  EXPECT_STREQ(made->at(0).as<peri_string>()[0].data, "B") << "with a NUL behind it";
  const std::span<const int64_t> numbers = made->at(1).as<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(numbers.begin(), numbers.end()), (std::vector<int64_t>{2, -1, -1, -1}));
  EXPECT_TRUE(peri::texts_of(made->at(1)).empty()) << "numbers are no texts";
  // What a run gave is read by the next.
  const auto again = session->run({made->at(0)});
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(peri::texts_of(again->at(0)), upper);
  // The tensors that it filled are passed to the next.
  const std::vector<peri_string> fewer(texts.begin(), texts.begin() + 3);
  const peri::View in = peri::View::of(std::span(fewer), {3});
  const auto refilled = session->run(std::span(&in, 1), *again);
  ASSERT_TRUE(refilled.ok()) << refilled.error().text;
  EXPECT_EQ(peri::texts_of(refilled->at(0)), std::vector<std::string>(upper.begin(), upper.begin() + 3));
  EXPECT_EQ(session->output_to_dlpack(0).error().kind, PERI_ERROR_UNSUPPORTED);
  EXPECT_FALSE(session->input_memory(0).ok());
}

TEST_F(Strings, AreVerifiedAndMeasured) {
  const std::vector<std::string> words = {"a", "c"};
  const std::vector<peri_string> texts = peri::strings_of(words);
  peri::VerifyOptions verify;
  verify.inputs = {peri::View::of(std::span(texts), {2})};
  const auto report = (*engine_)->verify(verify);
  ASSERT_TRUE(report.ok()) << report.error().text;
  EXPECT_TRUE(report->passed) << report->outside;
  peri::BenchOptions bench;
  bench.seconds = bench.warm_up = 0.001;
  bench.tolerance = 1e9;
  bench.inputs = verify.inputs;
  const auto measured = (*engine_)->bench(bench);
  EXPECT_TRUE(measured.ok()) << measured.error().text;
}

TEST_F(Strings, MisuseIsNamed) {
  std::vector<peri_string> texts = {{"a", 1}, {"b", 1}};
  const std::vector<int64_t> two = {2}, three = {3}, less = {-2};
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_EQ(refused(tensor_of(texts, two), PERI_ERROR_USAGE), "");
  for (const std::vector<int64_t>* dims : {&three, &less})
    EXPECT_NE(refused(tensor_of(texts, *dims), dims == &three ? PERI_ERROR_USAGE : PERI_ERROR_INVALID), "");
  EXPECT_TRUE(has(refused(tensor_of(texts, three), PERI_ERROR_USAGE), "48 bytes: 16 for each of 3 strings, found 32"));
  peri_tensor in = tensor_of(texts, two);
  in.bytes -= 1;
  EXPECT_TRUE(has(refused(in, PERI_ERROR_USAGE), "memory of another size"));
  in = tensor_of(texts, two);
  in.data = nullptr;
  EXPECT_TRUE(has(refused(in, PERI_ERROR_USAGE), "without data"));
  in = tensor_of(texts, two);
  in.dims = nullptr;
  EXPECT_TRUE(has(refused(in, PERI_ERROR_USAGE), "without dims"));
  in = tensor_of(texts, two);
  in.dtype = PERI_I64;
  EXPECT_TRUE(has(refused(in, PERI_ERROR_INVALID), "another element type: expected string, found i64"));
  const int none = 1000;
  std::memcpy(&in.dtype, &none, sizeof none);
  EXPECT_TRUE(has(refused(in, PERI_ERROR_USAGE), "dtype 1000 is none"));
  in = tensor_of(texts, two);
  in.device = PERI_DEVICE_NULL;
  EXPECT_TRUE(has(refused(in, PERI_ERROR_USAGE), "it lies on a device"));
  texts[1] = {nullptr, 3};
  EXPECT_TRUE(has(refused(tensor_of(texts, two), PERI_ERROR_USAGE), "string 1 is NULL and has 3 bytes"));
  texts[1] = {"abc", SIZE_MAX};
  EXPECT_TRUE(has(refused(tensor_of(texts, two), PERI_ERROR_USAGE), "string 1 has 18446744073709551615 bytes"));
  texts[1] = {"a\xff", 2};
  EXPECT_TRUE(has(refused(tensor_of(texts, two), PERI_ERROR_INVALID), "string 1 is not UTF-8"));
  texts[1] = {"b", 1};
  std::vector<peri_string> place(2);
  EXPECT_TRUE(has(refused(tensor_of(texts, two), PERI_ERROR_USAGE, tensor_of(place, two)), "leave its data NULL"));
  EXPECT_EQ(place[0].data, nullptr) << "nothing is written there";
  EXPECT_EQ(refused(tensor_of(texts, two), PERI_ERROR_USAGE), "") << "the session can run again";
}

TEST_F(Strings, WhereNumbersAreExpectedAreNotRead) {
  peri::BuildOptions options;
  options.tune = options.verify = options.cache = false;
  auto digits = peri::Engine::build(std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx", options);
  ASSERT_TRUE(digits.ok());
  auto session = peri::Session::create(*digits);
  std::vector<float> pixels(64, 1.0f);
  peri::View view = peri::View::of(std::span(pixels), {1, 1, 8, 8});
  view.dtype = PERI_STRING;
  const auto made = session->run({view});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, PERI_ERROR_INVALID);
  EXPECT_NE(made.error().text.find("expected f32, found string"), std::string::npos) << made.error().text;
}

}  // namespace
