// What a caller may get wrong with a session is an error or comes out right: one session in several threads, output
// memory that is also an input's, no error where one is asked about.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "peri/peri.h"
#include "tests/places.hpp"

namespace {

peri_tensor tensor_of(std::vector<float>& values, const std::vector<int64_t>& dims) {
  return {sizeof(peri_tensor),          PERI_F32, PERI_DEVICE_HOST, dims.data(), dims.size(), values.data(),
          values.size() * sizeof(float)};
}

class Misuse : public testing::Test {
 protected:
  void SetUp() override {
    const std::string model = std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx";
    peri_build_options o = {};
    o.struct_size = sizeof o;
    o.no_tune = o.no_verify = o.no_cache = 1;
    ASSERT_EQ(peri_engine_build(model.c_str(), &o, &engine_), nullptr);
    ASSERT_EQ(peri_session_create(engine_, 1, &session_), nullptr);
    for (size_t k = 0; k < image_.size(); ++k) image_[k] = static_cast<float>(k % 17) / 16;
  }
  void TearDown() override {
    peri_session_free(session_);
    peri_engine_free(engine_);
  }
  std::vector<float> answer() {
    std::vector<float> out(10 * 16);
    const peri_tensor in = tensor_of(image_, dims_);
    peri_tensor to = tensor_of(out, {});
    EXPECT_EQ(peri_session_run(session_, &in, 1, &to, 1, nullptr), nullptr);
    return out;
  }
  peri_engine* engine_ = nullptr;
  peri_session* session_ = nullptr;
  std::vector<int64_t> dims_ = {16, 1, 8, 8};
  std::vector<float> image_ = std::vector<float>(16 * 64);
};

TEST_F(Misuse, AnOutputInTheMemoryOfAnInputIsRight) {
  const std::vector<float> want = answer();
  for (const size_t shift : {size_t{0}, size_t{7}, image_.size() - want.size()}) {
    std::vector<float> shared = image_;
    const peri_tensor in = tensor_of(shared, dims_);
    peri_tensor out = in;
    out.data = shared.data() + shift;
    out.bytes = want.size() * sizeof(float);
    ASSERT_EQ(peri_session_run(session_, &in, 1, &out, 1, nullptr), nullptr);
    EXPECT_EQ(std::memcmp(out.data, want.data(), out.bytes), 0) << shift;
  }
}

TEST_F(Misuse, AnOutputOfAnotherTypeIsRefused) {
  std::vector<float> out(10 * 16);
  const peri_tensor in = tensor_of(image_, dims_);
  for (const auto& [dtype, right] : {std::pair{PERI_I32, false}, {PERI_DTYPE_INVALID, true}, {PERI_F32, true}}) {
    peri_tensor to = tensor_of(out, {});
    to.dtype = dtype;
    peri_error* const error = peri_session_run(session_, &in, 1, &to, 1, nullptr);
    EXPECT_EQ(error == nullptr, right);
    if (!error) continue;
    EXPECT_EQ(peri_error_get(error, PERI_ERROR_TEXT),
              std::string(peri::tests::kSourceDir) +
                  "/models/digits_cnn.onnx: 'logits': this output has another element type: expected f32, found i32");
    EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_INVALID);
    peri_error_free(error);
  }
}

TEST_F(Misuse, SizesThatNoneMayHave) {
  const std::string model = std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx";
  const auto refused = [&](std::vector<peri_dim> dims, const std::string& words) {
    peri_build_options o = {};
    o.struct_size = sizeof o;
    o.no_tune = o.no_verify = o.no_cache = 1;
    o.dims = dims.data();
    o.dim_count = dims.size();
    peri_engine* engine = nullptr;
    peri_error* const error = peri_engine_build(model.c_str(), &o, &engine);
    ASSERT_NE(error, nullptr) << words;
    EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_USAGE);
    EXPECT_NE(std::string(peri_error_get(error, PERI_ERROR_TEXT)).find(words), std::string::npos)
        << peri_error_get(error, PERI_ERROR_TEXT);
    peri_error_free(error);
  };
  for (const int64_t size : {-1, -5}) refused({{"batch", size}}, "dimension 'batch' is " + std::to_string(size));
  refused({{"batch", 2}, {"batch", 3}}, "dimension 'batch' is given twice");
}

// A number of tensors that is wrong is told before what stands beyond the caller's array is read.
TEST_F(Misuse, ANumberOfTensorsThatTheEngineHasNot) {
  std::vector<float> to(160);
  std::vector<peri_tensor> in(3, tensor_of(image_, dims_)), out(3, tensor_of(to, {}));
  for (size_t k = 1; k < 3; ++k) in[k].struct_size = out[k].struct_size = 12345;
  const auto said = [](peri_error* e) {
    const std::string text = e ? peri_error_get(e, PERI_ERROR_TEXT) : "";
    peri_error_free(e);
    return text;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  peri_verify_options verify = {};
  verify.struct_size = sizeof verify;
  verify.in = in.data();
  verify.in_count = 3;
  for (const std::string& text : {said(peri_session_run(session_, in.data(), 3, out.data(), 1, nullptr)),
                                  said(peri_session_run(session_, in.data(), 1, out.data(), 3, nullptr)),
                                  said(peri_session_prepare(session_, in.data(), 3)),
                                  said(peri_session_texts(session_, nullptr, 0, in.data(), 3)),
                                  said(peri_engine_verify(engine_, &verify, nullptr))})
    EXPECT_TRUE(has(text, "another number of") && has(text, "expected 1, found 3")) << text;
  EXPECT_EQ(said(peri_session_run(session_, in.data(), 1, out.data(), 1, nullptr)), "");
}

TEST_F(Misuse, NumbersOfThreadsThatNoneMayHave) {
  const std::string model = std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx";
  peri_build_options o = {};
  o.struct_size = sizeof o;
  o.no_tune = o.no_verify = o.no_cache = 1;
  peri_engine* engine = nullptr;
  ASSERT_EQ(peri_engine_build(model.c_str(), &o, &engine), nullptr);
  for (const int threads : {-1, -1000000, 1025, 1 << 30}) {
    peri_session* session = nullptr;
    peri_error* const error = peri_session_create(engine, threads, &session);
    EXPECT_EQ(session, nullptr) << threads;
    EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_USAGE) << threads;
    EXPECT_NE(std::string(peri_error_get(error, PERI_ERROR_TEXT)).find("number of threads"), std::string::npos);
    peri_error_free(error);
    peri_session_free(session);
  }
  peri_engine_free(engine);
}

TEST_F(Misuse, OneSessionInManyThreadsIsAnErrorAndNoCrash) {
  const std::vector<float> want = answer();
  std::atomic<int> right{0}, busy{0}, other{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      std::vector<float> image = image_, out(want.size());
      for (int k = 0; k < 50; ++k) {
        const peri_tensor in = tensor_of(image, dims_);
        peri_tensor to = tensor_of(out, {});
        peri_error* error = peri_session_run(session_, &in, 1, &to, 1, nullptr);
        if (!error)
          ++(out == want ? right : other);
        else
          ++(peri_error_get_kind(error) == PERI_ERROR_USAGE ? busy : other);
        peri_error_free(error);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(other, 0);
  EXPECT_GT(right, 0);
  EXPECT_EQ(right + busy, 8 * 50);
}

// A variable that should hold a path and holds none is not the wish to leave it out; nor is a list without its memory.
TEST_F(Misuse, WhatIsEmptyIsNotLeftOut) {
  const std::string model = std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx";
  const auto refused = [](peri_error* error, const std::string& words) {
    EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_USAGE) << words;
    const std::string text = peri_error_get(error, PERI_ERROR_TEXT);
    EXPECT_NE(text.find(words), std::string::npos) << text;
    peri_error_free(error);
  };
  using Build = peri_build_options;
  for (const auto& [name, path] : {std::pair{"engine_path", &Build::engine_path},
                                   {"lock_path", &Build::lock_path},
                                   {"locked_path", &Build::locked_path},
                                   {"cache_folder", &Build::cache_folder},
                                   {"dump_folder", &Build::dump_folder}}) {
    peri_build_options o = {};
    o.struct_size = sizeof o;
    o.no_tune = o.no_verify = o.no_cache = 1;
    o.*path = "";
    peri_engine* engine = nullptr;
    refused(peri_engine_build(model.c_str(), &o, &engine), std::string("the option ") + name + " is an empty path");
    EXPECT_EQ(engine, nullptr);
  }
  for (const auto& [name, word, takes] :
       {std::tuple{"backend", &Build::backend, "auto, cpu or cuda"},
        {"dtype", &Build::dtype, "f32, f16 or bf16"},
        {"io_dtype", &Build::io_dtype, "f32, f16 or bf16"},
        {"provider", &Build::provider, "peri, onednn, cublaslt, cudnn, outside or reference"},
        {"device", &Build::device, "a device such as cuda:1"}}) {
    peri_build_options o = {};
    o.struct_size = sizeof o;
    o.no_tune = o.no_verify = o.no_cache = 1;
    o.*word = "";
    const std::string said = std::string("the option ") + name + " is empty: expected " + takes;
    peri_engine* engine = nullptr;
    refused(peri_engine_build(model.c_str(), &o, &engine), said);
    EXPECT_EQ(engine, nullptr);
    peri_report* report = nullptr;
    refused(peri_model_inspect(model.c_str(), &o, &report), said);
    EXPECT_EQ(report, nullptr);
  }
  peri_engine_options l = {};
  l.struct_size = sizeof l;
  l.device = "";
  peri_engine* loaded = nullptr;
  refused(peri_engine_load("any.engine", &l, &loaded), "the option device is empty: expected a device such as cuda:1");
  EXPECT_EQ(loaded, nullptr);
  peri_verify_options v = {};
  v.struct_size = sizeof v;
  v.peer_model = "";
  refused(peri_engine_verify(engine_, &v, nullptr), "the option peer_model is an empty path");
  v.peer_model = nullptr;
  v.in_count = 1;
  refused(peri_engine_verify(engine_, &v, nullptr), "peri_verify_options.in is NULL and in_count is not 0");
  v.in_count = 0;
  v.dim_count = 2;
  refused(peri_engine_verify(engine_, &v, nullptr), "the option dims is NULL, and its count is 2");
  peri_bench_options b = {};
  b.struct_size = sizeof b;
  b.in_count = 1;
  peri_report* report = nullptr;
  refused(peri_engine_bench(engine_, &b, &report), "peri_bench_options.in is NULL and in_count is not 0");
  EXPECT_EQ(report, nullptr);
}

TEST_F(Misuse, NothingIsAskedOfNothing) {
  EXPECT_STREQ(peri_error_get(nullptr, PERI_ERROR_TEXT), "");
  EXPECT_EQ(peri_error_get_kind(nullptr), PERI_ERROR_INTERNAL);
  EXPECT_EQ(peri_engine_input_count(nullptr), 0u);
  EXPECT_STREQ(peri_engine_input_name(nullptr, 0), "");
  EXPECT_STREQ(peri_engine_output_dim_text(nullptr, 0, 0), "");
  EXPECT_EQ(peri_engine_input_rank(nullptr, 0), 0u);
  EXPECT_EQ(peri_engine_output_dim(nullptr, 0, 0), 0);
  peri_session* session = nullptr;
  peri_error* error = peri_session_create(nullptr, 1, &session);
  EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_USAGE);
  peri_error_free(error);
}

}  // namespace
