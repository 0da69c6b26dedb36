// What fails or throws behind the public interface reaches the caller as an error object, never as an end of the
// process; the session runs again afterwards.
// label: cpu
#include "base/fault.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "api/handles.hpp"
#include "exec/entry.hpp"
#include "peri/peri.h"
#include "tests/places.hpp"
#include "tests/plan/programs.hpp"

namespace peri::api {
namespace {

const std::string kModel = std::string(tests::kSourceDir) + "/models/digits_cnn.onnx";

struct Told {
  int kind = 0;
  std::string text, node, remedy;
};
Told take(peri_error* error) {
  if (!error) return {};
  Told out{peri_error_get_kind(error), peri_error_get(error, PERI_ERROR_TEXT), peri_error_get(error, PERI_ERROR_NODE),
           peri_error_get(error, PERI_ERROR_REMEDY)};
  peri_error_free(error);
  return out;
}

// Copies its input over the pool; a check fails in one of the tasks where the first element is negative.
struct PlantedInstance final : runtime::Instance {
  Status run(const runtime::RunContext& c) const override {
    const float* from = static_cast<const float*>(c.reads[0]);
    float* to = static_cast<float*>(c.writes[0]);
    c.pool->run(16, [&](int64_t task, int) {
      PERI_CHECK(from[0] >= 0 || task != 11, "planted");
      to[task] = from[task];
    });
    return Ok{};
  }
};
struct PlantedPrepared final : runtime::Prepared {
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding&) override {
    return std::unique_ptr<runtime::Instance>(std::make_unique<PlantedInstance>());
  }
};
const runtime::Executor kPlanted{"planted", 1,
                                 [](const runtime::PrepareContext&) -> Result<std::unique_ptr<runtime::Prepared>> {
                                   return std::unique_ptr<runtime::Prepared>(std::make_unique<PlantedPrepared>());
                                 }};

TEST(ApiFault, AFailedCheckInATaskIsAnErrorAndTheSessionRunsAgain) {
  tests::ProgramMaker m;
  const int32_t x = m.input("x", DType::kF32, "[16]"), y = m.scratch("y", DType::kF32, "[16]");
  m.step("planted", {x}, {y});
  m.output("y", y);
  static const std::vector<const runtime::Executor*> table = {&kPlanted};
  auto made = runtime::Engine::create(m.p, {}, {table, {{"avx2"}, {}}, 4});
  ASSERT_TRUE(made.ok()) << made.error().text();
  peri_engine* engine = to_handle(std::move(*made), {}).value().release();
  peri_session* session = nullptr;
  ASSERT_EQ(peri_session_create(engine, 4, &session), nullptr);
  std::vector<float> in(16, 2), to(16, 0);
  const int64_t dims[] = {16};
  const peri_tensor from = {sizeof from, PERI_F32, PERI_DEVICE_HOST, dims, 1, in.data(), 64};
  for (int k = 0; k < 3; ++k) {
    in[0] = -1;
    peri_tensor out = {sizeof out, PERI_F32, PERI_DEVICE_HOST, dims, 1, to.data(), 64};
    const Told told = take(peri_session_run(session, &from, 1, &out, 1, nullptr));
    EXPECT_EQ(told.kind, PERI_ERROR_INTERNAL);
    EXPECT_NE(told.text.find("planted"), std::string::npos) << told.text;
    EXPECT_EQ(told.node, m.p.steps[0].name);
    EXPECT_NE(told.remedy.find("report"), std::string::npos);
    in[0] = 2;
    EXPECT_EQ(take(peri_session_run(session, &from, 1, &out, 1, nullptr)).text, "");
    EXPECT_EQ(to, in);
  }
  peri_session_free(session);
  peri_engine_free(engine);
}

// A caller's hook is the way into a build: what it throws stands for what anything below throws.
Told built_with_hook(void (*thrower)()) {
  peri_build_options options = {};
  options.struct_size = sizeof options;
  options.threads = 2;
  options.no_tune = options.no_verify = 1;
  options.user = reinterpret_cast<void*>(thrower);
  options.progress = [](void* user, size_t done, size_t, const char*) {
    if (done == 1) reinterpret_cast<void (*)()>(user)();
  };
  peri_engine* engine = nullptr;
  Told told = take(peri_engine_build(kModel.c_str(), &options, &engine));
  EXPECT_EQ(engine, nullptr);
  return told;
}

TEST(ApiFault, WhatIsThrownInABuildIsAnError) {
  const Told fault = built_with_hook([] { PERI_CHECK(1 == 2, "planted"); });
  const Told memory = built_with_hook([] { throw std::bad_alloc(); });
  EXPECT_EQ(fault.kind, PERI_ERROR_INTERNAL);
  EXPECT_NE(fault.text.find("1 == 2: planted"), std::string::npos) << fault.text;
  EXPECT_NE(fault.text.find("digits_cnn.onnx"), std::string::npos) << fault.text;
  EXPECT_EQ(memory.kind, PERI_ERROR_MEMORY);
}

// Whose it is: the message names the function, and nothing says that peri is at fault.
void is_the_callers(const Told& told, const std::string& function, const std::string& words) {
  EXPECT_EQ(told.kind, PERI_ERROR_USAGE) << told.text;
  EXPECT_NE(told.text.find("the caller's function '" + function + "' threw an exception" + words), std::string::npos)
      << told.text;
  EXPECT_EQ(told.text.find("fault of peri"), std::string::npos) << told.text;
}
[[noreturn]] void fail() { throw std::runtime_error("no disk"); }

TEST(ApiFault, WhatACallersFunctionThrowsIsTheCallers) {
  is_the_callers(built_with_hook(fail), "progress", ": no disk");
  is_the_callers(built_with_hook([] { throw 7; }), "progress", "");
  peri_build_options options = {};
  options.struct_size = sizeof options;
  options.no_tune = options.no_verify = 1;
  peri_engine* engine = nullptr;
  const auto built = [&](peri_build_options o) { return take(peri_engine_build(kModel.c_str(), &o, &engine)); };
  peri_build_options other = options;
  other.stop = [](void*) -> int { fail(); };
  is_the_callers(built(other), "stop", ": no disk");
  other = options;
  other.log = [](void*, peri_log_level, const char*) { fail(); };
  is_the_callers(built(other), "log", ": no disk");
  ASSERT_EQ(engine, nullptr);
  const peri_allocator allocator = {sizeof(peri_allocator), nullptr, [](void*, size_t, size_t) -> void* { fail(); },
                                    [](void*, void*, size_t) { fail(); }};
  other = options;
  other.allocator = &allocator;
  ASSERT_EQ(built(other).text, "");
  peri_session* session = nullptr;
  ASSERT_EQ(take(peri_session_create(engine, 1, &session)).text, "");
  const int64_t dims[] = {1, 1, 8, 8};
  std::vector<float> pixels(64);
  const peri_tensor in = {sizeof(peri_tensor), PERI_F32, PERI_DEVICE_HOST, dims, 4, pixels.data(), 256, 0};
  peri_tensor out = {};
  out.struct_size = sizeof out;
  is_the_callers(take(peri_session_run(session, &in, 1, &out, 1, nullptr)), "allocate", ": no disk");
  peri_session_free(session);
  peri_engine_free(engine);
  ASSERT_EQ(built(options).text, "");
  peri_verify_options verify = {};
  verify.struct_size = sizeof verify;
  verify.progress = [](void*, size_t, size_t, const char*) { fail(); };
  is_the_callers(take(peri_engine_verify(engine, &verify, nullptr)), "progress", ": no disk");
  peri_bench_options bench = {};
  bench.struct_size = sizeof bench;
  bench.seconds = 0.01;
  bench.stop = [](void*) -> int { fail(); };
  peri_report* report = nullptr;
  is_the_callers(take(peri_engine_bench(engine, &bench, &report)), "stop", ": no disk");
  EXPECT_EQ(report, nullptr);
  peri_engine_free(engine);
}

TEST(ApiFault, NoHandleIsAnEngineWithoutPorts) {
  EXPECT_EQ(peri_engine_input_count(nullptr), 0u);
  EXPECT_EQ(peri_engine_output_count(nullptr), 0u);
  EXPECT_STREQ(peri_engine_input_name(nullptr, 0), "");
  EXPECT_STREQ(peri_engine_output_dim_text(nullptr, 0, 0), "");
  EXPECT_EQ(peri_engine_input_dim(nullptr, 0, 0), 0);
  peri_engine_free(nullptr);
  peri_session_free(nullptr);
  peri_error_free(nullptr);
}

}  // namespace
}  // namespace peri::api
