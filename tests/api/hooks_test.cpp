// Hooks and DLPack as a caller sees them: every byte of a run comes from the caller's allocator and goes back to it,
// the log hears what no error says, arrays of other libraries pass without a copy.
// label: cpu
#include <gtest/gtest.h>
#include <peri/dlpack.h>
#include <peri/peri.hpp>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/places.hpp"

namespace {

std::string model() { return std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx"; }

// Counts what is taken; gives nothing above `limit`.
struct Counter {
  size_t in_use = 0, calls = 0, limit = SIZE_MAX;
  peri_allocator allocator() {
    return {sizeof(peri_allocator), this,
            [](void* user, size_t bytes, size_t alignment) -> void* {
              auto* c = static_cast<Counter*>(user);
              if (bytes > c->limit) return nullptr;
              c->in_use += bytes;
              ++c->calls;
              return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
            },
            [](void* user, void* memory, size_t bytes) {
              static_cast<Counter*>(user)->in_use -= bytes;
              std::free(memory);
            }};
  }
};

struct Told {
  std::vector<std::pair<peri_log_level, std::string>> lines;
  peri::Hooks hooks(const peri_allocator* allocator = nullptr) {
    return {
        allocator,
        [](void* user, peri_log_level level, const char* m) { static_cast<Told*>(user)->lines.emplace_back(level, m); },
        this};
  }
  bool has(std::string_view part) const {
    for (const auto& [level, line] : lines)
      if (line.find(part) != std::string::npos) return true;
    return false;
  }
};

peri::Result<peri::Engine> build(const peri::Hooks& hooks) {
  peri::BuildOptions options;
  options.tune = false;
  options.threads = 2;
  options.dims = {{"batch", 2}};
  options.hooks = hooks;
  return peri::Engine::build(model(), options);
}

struct Images {
  std::vector<float> values;
  int64_t shape[4], strides[4] = {64, 64, 8, 1};
  DLManagedTensor managed = {};
  explicit Images(int64_t batch) : values(static_cast<size_t>(batch) * 64), shape{batch, 1, 8, 8} {
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k * 37 % 101) / 101.0f;
    DLTensor& t = managed.dl_tensor;
    t.data = values.data();
    t.device.device_type = kDLCPU;
    t.ndim = 4;
    t.dtype = {kDLFloat, 32, 1};
    t.shape = shape;
  }
  peri::View view() { return peri::View::of(std::span(values), {shape, shape + 4}); }
};

TEST(Hooks, RunsTakeTheirMemoryFromTheCaller) {
  Counter counter;
  const peri_allocator allocator = counter.allocator();
  {
    auto engine = build({&allocator});
    ASSERT_TRUE(engine.ok()) << engine.error().text;
    auto session = peri::Session::create(*engine);
    EXPECT_EQ(counter.calls, 0u) << "sizes are not known before a run";
    Images images(2), more(7);
    auto first = session->run({images.view()});
    ASSERT_TRUE(first.ok()) << first.error().text;
    const size_t small = counter.in_use;
    EXPECT_GE(counter.calls, 2u) << "intermediate values and the output";
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first->at(0).data) % 4096, 0u);
    ASSERT_TRUE(session->run({more.view()}).ok());
    EXPECT_GT(counter.in_use, small);
  }
  EXPECT_EQ(counter.in_use, 0u);
}

TEST(Hooks, WithoutMemoryARunFailsAndTheNextOneRuns) {
  Counter counter;
  const peri_allocator allocator = counter.allocator();
  {
    auto engine = build({&allocator});
    auto session = peri::Session::create(*engine);
    Images images(3);
    counter.limit = 1024;
    const auto starved = session->run({images.view()});
    ASSERT_FALSE(starved.ok());
    EXPECT_EQ(starved.error().kind, PERI_ERROR_MEMORY);
    EXPECT_NE(starved.error().text.find(" bytes for a run"), std::string::npos) << starved.error().text;
    counter.limit = SIZE_MAX;
    EXPECT_TRUE(session->run({images.view()}).ok());
  }
  EXPECT_EQ(counter.in_use, 0u);
  peri_allocator half = counter.allocator();
  half.release = nullptr;
  EXPECT_EQ(build({&half}).error().kind, PERI_ERROR_USAGE);
  half.struct_size = 0;
  EXPECT_EQ(build({&half}).error().kind, PERI_ERROR_USAGE);
}

// In C++ too the caller's functions are named where they throw.
TEST(Hooks, WhatTheyThrowIsToldByTheirNames) {
  peri::BuildOptions options;
  options.tune = options.verify = false;
  options.progress = [](size_t, size_t, const char*) { throw std::runtime_error("no disk"); };
  const auto engine = peri::Engine::build(model(), options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, PERI_ERROR_USAGE);
  EXPECT_NE(engine.error().text.find("'progress' threw an exception: no disk"), std::string::npos)
      << engine.error().text;
}

// An engine stands where the build writes: it stays as it was.
TEST(Hooks, ABuildThatTheyEndByThrowingWritesNoFile) {
  const std::string path = std::string(peri::tests::kBuildDir) + "/peri_hooks_test.engine";
  peri::BuildOptions options;
  options.tune = options.verify = false;
  options.threads = 2;
  options.engine_path = path;
  options.lock_path = path + ".lock";
  const auto good = peri::Engine::build(model(), options);
  ASSERT_TRUE(good.ok()) << good.error().text;
  const auto contents = [](const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::vector<std::string> names = {path, path + ".proof", path + ".lock"};
  std::vector<std::string> before;
  for (const std::string& name : names) before.push_back(contents(name));
  options.max_dims = {{"batch", 16}};  // another engine than the one there
  for (const bool stop : {false, true}) {
    peri::BuildOptions thrower = options;
    if (stop)
      thrower.stop = []() -> bool { throw std::runtime_error("no disk"); };
    else
      thrower.progress = [](size_t, size_t, const char*) { throw std::runtime_error("no disk"); };
    const auto thrown = peri::Engine::build(model(), thrower);
    ASSERT_FALSE(thrown.ok());
    EXPECT_EQ(thrown.error().kind, PERI_ERROR_USAGE);
    for (size_t k = 0; k < names.size(); ++k) {
      EXPECT_FALSE(before[k].empty()) << names[k];
      EXPECT_EQ(contents(names[k]), before[k]) << names[k];
    }
  }
  for (const std::string& name : names) std::filesystem::remove(name);
}

TEST(Hooks, WhatReleaseThrowsEndsNothing) {
  Counter counter;
  peri_allocator allocator = counter.allocator();
  allocator.release = [](void* user, void* memory, size_t bytes) {
    static_cast<Counter*>(user)->in_use -= bytes;
    std::free(memory);
    throw std::runtime_error("no disk");
  };
  {
    auto engine = build({&allocator});
    ASSERT_TRUE(engine.ok()) << engine.error().text;
    auto session = peri::Session::create(*engine);
    Images images(2);
    ASSERT_TRUE(session->run({images.view()}).ok());
    EXPECT_GT(counter.in_use, 0u);
  }
  EXPECT_EQ(counter.in_use, 0u);
}

TEST(Hooks, TheLogHearsWhatNoErrorSays) {
  Told told;
  auto engine = build(told.hooks());
  ASSERT_TRUE(engine.ok());
  EXPECT_TRUE(told.has("built ")) << "of the build";
  auto session = peri::Session::create(*engine);
  Images tuned(2), other(5);
  const auto count = told.lines.size();
  ASSERT_TRUE(session->run({tuned.view()}).ok());
  EXPECT_EQ(told.lines.size(), count);
  for (int turn = 0; turn < 2; ++turn) ASSERT_TRUE(session->run({other.view()}).ok());
  EXPECT_EQ(told.lines.size(), count + 1) << "once for a size";
  Images third(3);
  auto second = peri::Session::create(*engine);
  for (int turn = 0; turn < 3; ++turn)
    for (auto* s : {&*session, &*second})
      for (Images* images : {&other, &third, &tuned}) ASSERT_TRUE(s->run({images->view()}).ok());
  EXPECT_EQ(told.lines.size(), count + 2) << "also where sizes take turns, in whichever session";
  EXPECT_TRUE(told.has("tuned for batch=2, run at batch=5"));
}

TEST(Hooks, AProgramCompiledBeforeThemStillRuns) {
  peri_build_options options = {};
  options.struct_size = offsetof(peri_build_options, allocator);  // the struct as it was
  options.no_tune = 1;
  options.allocator = reinterpret_cast<const peri_allocator*>(1);  // bytes behind it, not to be read
  peri_engine* engine = nullptr;
  ASSERT_EQ(peri_engine_build(model().c_str(), &options, &engine), nullptr);
  peri_engine_free(engine);
}

TEST(DlPack, ArraysPassWithoutACopy) {
  auto engine = build({});
  auto session = peri::Session::create(*engine);
  Images images(3);
  const auto plain = session->run({images.view()});
  ASSERT_TRUE(plain.ok());
  const std::vector<float> want(plain->at(0).as<float>().begin(), plain->at(0).as<float>().end());
  images.managed.dl_tensor.strides = images.strides;
  const auto view = peri::View::from_dlpack(images.managed);
  ASSERT_TRUE(view.ok()) << view.error().text;
  EXPECT_EQ(view->data, images.values.data());
  const auto got = session->run({*view});
  ASSERT_TRUE(got.ok()) << got.error().text;
  const auto shared = session->output_to_dlpack(0);
  ASSERT_TRUE(shared.ok()) << shared.error().text;
  DLManagedTensor* t = *shared;
  EXPECT_EQ(t->dl_tensor.data, got->at(0).data);
  session = peri::Error{};  // the session goes, the memory stays
  ASSERT_EQ(t->dl_tensor.ndim, 2);
  EXPECT_EQ(t->dl_tensor.shape[0], 3);
  EXPECT_EQ(std::vector<float>(static_cast<float*>(t->dl_tensor.data), static_cast<float*>(t->dl_tensor.data) + 30),
            want);
  t->deleter(t);
}

TEST(DlPack, BytesBeforeTheFirstElementAreLeftOut) {
  Images images(3);
  DLTensor& t = images.managed.dl_tensor;
  t.shape[0] = 2;
  t.byte_offset = 64 * sizeof(float);
  EXPECT_EQ(peri::View::from_dlpack(images.managed)->data, images.values.data() + 64);
  EXPECT_EQ(peri::View::from_dlpack(images.managed)->bytes, 2 * 64 * sizeof(float));
}

TEST(DlPack, WhatIsNotDenseOrNotHereIsRefusedByName) {
  Images images(3);
  DLTensor& t = images.managed.dl_tensor;
  const auto error = [&] {
    const auto made = peri::View::from_dlpack(images.managed);
    return made.ok() ? peri::Error{} : made.error();
  };
  EXPECT_EQ(error().text, "");
  t.device.device_type = static_cast<decltype(t.device.device_type)>(8);
  EXPECT_NE(error().text.find("Metal"), std::string::npos);
  t.device.device_type = static_cast<decltype(t.device.device_type)>(99);
  EXPECT_NE(error().text.find("99"), std::string::npos);
  t.device.device_type = kDLCPU;
  std::swap(images.strides[2], images.strides[3]);
  t.strides = images.strides;
  EXPECT_NE(error().text.find("axis 3"), std::string::npos);
  t.strides = nullptr;
  t.dtype.lanes = 4;
  EXPECT_EQ(error().kind, PERI_ERROR_UNSUPPORTED);
  t.dtype = {5, 64, 1};  // complex
  EXPECT_EQ(error().kind, PERI_ERROR_UNSUPPORTED);
  t.dtype = {kDLFloat, 32, 1};
  t.shape[0] = -1;
  EXPECT_NE(error().text, "");
  auto engine = build({});
  auto session = peri::Session::create(*engine);
  EXPECT_EQ(session->output_to_dlpack(0).error().kind, PERI_ERROR_USAGE) << "nothing has run";
}

}  // namespace
