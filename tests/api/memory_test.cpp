// Whichever allocation fails, a call of the public interface returns an error of kind memory, and the next call works.
// label: cpu
#include <gtest/gtest.h>
#include <peri/peri.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <new>
#include <vector>

#include "kernels/entry.hpp"
#include "tests/places.hpp"

namespace {
// Allocations of this thread that still succeed; < 0: all do.
thread_local int64_t left = -1;

void* take(size_t bytes) {
  if (left == 0) return nullptr;
  if (left > 0) --left;
  return std::malloc(bytes ? bytes : 1);
}
void* take_or_throw(size_t bytes) {
  if (void* p = take(bytes)) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(size_t bytes) { return take_or_throw(bytes); }
void* operator new[](size_t bytes) { return take_or_throw(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return take(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return take(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }

namespace {

// Calls `f` with its first allocation failing, then another, ... until it succeeds; how often it failed.
template <class F>
int64_t fail_each(F&& f, int64_t stride) {
  for (int64_t n = 0;; n += stride) {
    left = n;
    peri_error* error = f();
    left = -1;
    if (!error) return n / stride;
    EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_MEMORY) << n << ": " << peri_error_get(error, PERI_ERROR_TEXT);
    EXPECT_STRNE(peri_error_get(error, PERI_ERROR_TEXT), "");
    const std::string remedy = peri_error_get(error, PERI_ERROR_REMEDY),
                      expected = peri_error_get(error, PERI_ERROR_EXPECTED);
    EXPECT_FALSE(remedy.empty() && expected.empty()) << n << ": what is to be done";
    EXPECT_EQ(remedy.find("--"), std::string::npos) << remedy;
    peri_error_free(error);
    if (testing::Test::HasFailure()) return -1;
  }
}

TEST(OutOfMemory, EveryCallSaysSoAndTheNextOneWorks) {
  const std::string model = std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx";
  const std::string path =
      (std::filesystem::temp_directory_path() / ("peri_memory_" + std::to_string(getpid()) + ".engine")).string();
  peri_build_options build = {};
  build.struct_size = sizeof build;
  build.no_tune = build.no_verify = build.no_cache = 1;
  build.threads = 1;
  build.engine_path = path.c_str();
  peri_engine* engine = nullptr;
  EXPECT_GT(fail_each([&] { return peri_engine_build(model.c_str(), &build, &engine); }, 997), 20);
  peri_engine_free(engine);
  engine = nullptr;
  EXPECT_GT(fail_each([&] { return peri_engine_load(path.c_str(), nullptr, &engine); }, 7), 20);
  peri_session* session = nullptr;
  EXPECT_GT(fail_each([&] { return peri_session_create(engine, 1, &session); }, 1), 2);
  std::vector<float> image(64, 0.5f), scores(10);
  const int64_t dims[] = {1, 1, 8, 8};
  const peri_tensor in = {sizeof in, PERI_F32, PERI_DEVICE_HOST, dims, 4, image.data(), 256};
  peri_tensor out = {sizeof out, PERI_F32, PERI_DEVICE_HOST, nullptr, 0, scores.data(), 40};
  EXPECT_GT(fail_each([&] { return peri_session_run(session, &in, 1, &out, 1, nullptr); }, 3), 20);
  EXPECT_NE(scores, std::vector<float>(10)) << "the run that succeeded wrote its answer";
  peri_session_free(session);
  peri_engine_free(engine);
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".proof");
}

// A kernel from outside is known once the call says so, however often it failed before.
TEST(OutOfMemory, AKernelIsAddedInFullOrNotAtAll) {
  const std::string manifest = std::string(peri::tests::kSourceDir) + "/examples/triton/softmax_f16.json";
  EXPECT_GT(fail_each([&] { return peri_kernel_add(manifest.c_str()); }, 1), 100);
  const peri::kernels::Kernel* const kernel = peri::kernels::find("triton_softmax_f16");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(peri_kernel_add(manifest.c_str()), nullptr) << "the same once more";
  EXPECT_EQ(peri::kernels::find("triton_softmax_f16"), kernel);
}

}  // namespace
