// What a run left is handed out while it is there, and never afterwards: a failed run and another shape end it, the
// next run may read it; every call on a session that is at work is refused.
// label: cpu
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "peri/dlpack.h"
#include "peri/peri.hpp"
#include "tests/places.hpp"

namespace {

peri::Result<peri::Engine> digits(const char* backend, const peri_allocator* allocator = nullptr) {
  peri::BuildOptions options;
  options.tune = options.verify = options.cache = false;
  options.threads = 2;
  options.backend = backend;
  options.hooks.allocator = allocator;
  return peri::Engine::build(std::string(peri::tests::kSourceDir) + "/models/digits_cnn.onnx", options);
}

struct Images {
  std::vector<int64_t> dims;
  std::vector<float> values;
  explicit Images(int64_t batch) : dims{batch, 1, 8, 8} {
    for (int64_t k = 0; k < batch * 64; ++k) values.push_back(static_cast<float>(k * 37 % 101) / 101.0f);
  }
  peri::View view() { return peri::View::of(std::span(values), dims); }
};

// The error of handing out output 0.
peri::Error not_handed_out(const peri::Session& s) {
  const auto made = s.output_to_dlpack(0);
  EXPECT_FALSE(made.ok());
  return made.ok() ? peri::Error{} : made.error();
}

class OnADevice : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(engine_.ok()) << engine_.error().text;
    ASSERT_TRUE(session_.ok());
    leave();
  }
  // A run that leaves its answer on the device.
  void leave() {
    peri::View left;
    left.device = PERI_DEVICE_NULL;
    const peri::View in = images_.view();
    const auto made = session_->run(std::span(&in, 1), std::span(&left, 1));
    ASSERT_TRUE(made.ok()) << made.error().text;
    EXPECT_EQ(not_handed_out(*session_).kind, PERI_ERROR_UNSUPPORTED) << "it is there; DLPack has no such device";
  }
  Images images_{2};
  peri::Result<peri::Engine> engine_ = digits("null");
  peri::Result<peri::Session> session_ = peri::Session::create(*engine_);
};

TEST_F(OnADevice, AFailedRunLeavesNothing) {
  peri::View wrong = images_.view(), left;
  wrong.bytes -= 4;
  left.device = PERI_DEVICE_NULL;
  ASSERT_FALSE(session_->run(std::span(&wrong, 1), std::span(&left, 1)).ok());
  EXPECT_EQ(not_handed_out(*session_).kind, PERI_ERROR_USAGE);
}

TEST_F(OnADevice, AnotherShapeEndsWhatWasLeft) {
  Images more(64);
  const peri::View in = more.view();
  ASSERT_FALSE(session_->prepare(std::span(&in, 1)).has_value());
  EXPECT_EQ(not_handed_out(*session_).kind, PERI_ERROR_USAGE);
}

TEST_F(OnADevice, ARunOnTheHostEndsWhatWasLeft) {
  ASSERT_TRUE(session_->run({images_.view()}).ok());
  auto handed = session_->output_to_dlpack(0);
  ASSERT_TRUE(handed.ok()) << handed.error().text;
  (*handed)->deleter(*handed);
}

TEST_F(OnADevice, MemoryThatIsNoneIsAnError) {
  peri::View left;
  left.device = PERI_DEVICE_NULL;
  for (const peri_device device : {PERI_DEVICE_HOST, PERI_DEVICE_NULL}) {
    peri::View none = images_.view();
    none.data = nullptr;
    none.device = device;
    const auto made = session_->run(std::span(&none, 1), std::span(&left, 1));
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, PERI_ERROR_USAGE);
    EXPECT_NE(made.error().text.find("without data"), std::string::npos) << made.error().text;
    EXPECT_EQ(made.error().node, "image");
  }
}

// Calls back from within runs, and spoils what is given back.
struct Allocator {
  std::function<void()> at_work;
  peri_allocator raw = {sizeof(peri_allocator), this,
                        [](void* user, size_t bytes, size_t alignment) -> void* {
                          auto* self = static_cast<Allocator*>(user);
                          if (self->at_work) std::exchange(self->at_work, {})();
                          return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
                        },
                        [](void*, void* memory, size_t bytes) {
                          std::memset(memory, 0xff, bytes);  // NaN
                          std::free(memory);
                        }};
};

TEST(AtWork, EveryCallIsRefused) {
  Allocator allocator;
  auto engine = digits("cpu", &allocator.raw);
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  peri_session* s = nullptr;
  ASSERT_EQ(peri_session_create(engine->handle(), 1, &s), nullptr);
  Images images(2);
  const peri_tensor in = {sizeof in, PERI_F32, PERI_DEVICE_HOST, images.dims.data(), 4, images.values.data(), 512, 0};
  int calls = 0, refused = 0;
  const auto busy = [&](peri_error* error) {
    ++calls;
    refused += error && peri_error_get_kind(error) == PERI_ERROR_USAGE &&
               std::string(peri_error_get(error, PERI_ERROR_TEXT)).find("at work") != std::string::npos;
    peri_error_free(error);
  };
  allocator.at_work = [&] {
    peri_tensor t = {};
    t.struct_size = sizeof t;
    DLManagedTensor* array = nullptr;
    busy(peri_session_run(s, &in, 1, &t, 1, nullptr));
    busy(peri_session_prepare(s, &in, 1));
    busy(peri_session_input_memory(s, 0, &t));
    busy(peri_session_output_memory(s, 0, &t));
    busy(peri_session_output_to_dlpack(s, 0, &array));
    busy(peri_session_wait(s));
  };
  peri_tensor out = {};
  out.struct_size = sizeof out;
  EXPECT_EQ(peri_session_run(s, &in, 1, &out, 1, nullptr), nullptr);
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(refused, 6);
  peri_session_free(s);
}

TEST(AtWork, ARunIsCancelledFromElsewhereAndTheNextOneRuns) {
  Allocator allocator;
  auto engine = digits("cpu", &allocator.raw);
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  auto s = peri::Session::create(*engine, 1);
  Images images(2);
  s->cancel();
  ASSERT_TRUE(s->run({images.view()}).ok()) << "nothing was under way";
  Images more(4);  // another shape: memory is taken, and the allocator called
  allocator.at_work = [&] { s->cancel(); };
  const auto cancelled = s->run({more.view()});
  ASSERT_FALSE(cancelled.ok());
  EXPECT_EQ(cancelled.error().kind, PERI_ERROR_CANCELLED);
  EXPECT_NE(cancelled.error().node, "");
  EXPECT_TRUE(s->run({more.view()}).ok());
  peri_session_cancel(nullptr);
}

TEST_F(OnADevice, ARunIsCancelledToo) {
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) session_->cancel();
  });
  int cancelled = 0;
  for (int k = 0; k < 2000 && !cancelled; ++k) {
    const auto made = session_->run({images_.view()});
    cancelled += !made.ok() && made.error().kind == PERI_ERROR_CANCELLED;
    ASSERT_TRUE(made.ok() || cancelled) << made.error().text;
  }
  done = true;
  other.join();
  EXPECT_EQ(cancelled, 1);
  EXPECT_TRUE(session_->run({images_.view()}).ok());
}

TEST(LastRun, ItsAnswerMayBeTheNextInput) {
  Allocator allocator;
  auto engine = digits("cpu", &allocator.raw);
  ASSERT_TRUE(engine.ok());
  auto s = peri::Session::create(*engine, 1);
  Images images(32);
  const auto run = [&](const peri::View& in) {
    const auto made = s->run({in});
    EXPECT_TRUE(made.ok()) << made.error().text;
    return made.ok() ? made->at(0) : peri::View{};
  };
  peri::View answer = run(images.view());  // 320 numbers: five images
  std::vector<float> copy(answer.as<float>().begin(), answer.as<float>().end());
  const std::vector<int64_t> five = {5, 1, 8, 8};
  answer.dims = five;
  const peri::View of_memory = run(answer);
  const std::vector<float> got(of_memory.as<float>().begin(), of_memory.as<float>().end());
  // And in one tensor: what is read stays until it is read, and the answer goes elsewhere.
  peri::View state = run(images.view());
  state.dims = five;
  const auto fed = s->run(std::span(&state, 1), std::span(&state, 1));
  ASSERT_TRUE(fed.ok()) << fed.error().text;
  EXPECT_EQ(got, std::vector<float>(fed->at(0).as<float>().begin(), fed->at(0).as<float>().end()));
  const peri::View wanted = run(peri::View::of(std::span(copy), five));
  EXPECT_EQ(got, std::vector<float>(wanted.as<float>().begin(), wanted.as<float>().end()));
}

// As a loop in C does it: what the run before set in the tensor is memory of the session, whatever the sizes are and
// whether a run between them failed.
TEST(LastRun, ItsTensorMayBeTheNextOutput) {
  Allocator allocator;
  auto engine = digits("cpu", &allocator.raw);
  ASSERT_TRUE(engine.ok());
  auto reused = peri::Session::create(*engine, 1), fresh = peri::Session::create(*engine, 1);
  peri::View out;
  for (const int64_t batch : {2, 2, 3, 1, 64, 64, 2}) {
    Images images(batch);
    for (float& v : images.values) v += static_cast<float>(batch);
    if (batch == 3) {
      peri::View wrong = images.view();
      wrong.bytes -= 4;
      EXPECT_FALSE(reused->run(std::span(&wrong, 1), std::span(&out, 1)).ok());
      allocator.at_work = [&] { reused->cancel(); };
      const peri::View in = images.view();
      const auto cancelled = reused->run(std::span(&in, 1), std::span(&out, 1));
      ASSERT_FALSE(cancelled.ok());
      EXPECT_EQ(cancelled.error().kind, PERI_ERROR_CANCELLED);
      EXPECT_EQ(not_handed_out(*reused).kind, PERI_ERROR_USAGE) << "only the tensor knows of it";
    }
    const peri::View in = images.view();
    const auto made = reused->run(std::span(&in, 1), std::span(&out, 1));
    ASSERT_TRUE(made.ok()) << made.error().text;
    const auto wanted = fresh->run({in});
    ASSERT_TRUE(wanted.ok());
    out = made->at(0);
    EXPECT_EQ(std::vector<float>(out.as<float>().begin(), out.as<float>().end()),
              std::vector<float>(wanted->at(0).as<float>().begin(), wanted->at(0).as<float>().end()))
        << batch;
  }
  peri::View within = out;
  within.data = const_cast<float*>(out.as<float>().data()) + 10;
  Images one(1);
  const peri::View in = one.view();
  within.bytes = 40;
  const auto made = reused->run(std::span(&in, 1), std::span(&within, 1));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, PERI_ERROR_USAGE);
  EXPECT_NE(made.error().text.find("lies in what the last run gave"), std::string::npos) << made.error().text;
}

// What is handed out belongs to whoever has it: an output may be written there.
TEST(LastRun, AnArrayThatWasHandedOutIsMemoryOfTheCaller) {
  auto engine = digits("cpu");
  ASSERT_TRUE(engine.ok());
  auto s = peri::Session::create(*engine, 1);
  Images images(2), others(2);
  for (float& v : others.values) v = 1 - v;
  const auto first = s->run({images.view()});
  ASSERT_TRUE(first.ok());
  auto handed = s->output_to_dlpack(0);
  ASSERT_TRUE(handed.ok());
  const peri::View in = others.view(), out = first->at(0);
  const std::vector<float> before(out.as<float>().begin(), out.as<float>().end());
  const auto made = s->run(std::span(&in, 1), std::span(&out, 1));
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_EQ(made->at(0).data, (*handed)->dl_tensor.data);
  EXPECT_NE(before, std::vector<float>(made->at(0).as<float>().begin(), made->at(0).as<float>().end()));
  (*handed)->deleter(*handed);
}

TEST_F(OnADevice, ItsTensorMayBeTheNextOutputToo) {
  for (const peri_device device : {PERI_DEVICE_NULL, PERI_DEVICE_HOST}) {
    peri::View out;
    out.device = device;
    for (const int64_t batch : {2, 2, 64, 2}) {
      Images images(batch);
      const peri::View in = images.view();
      const auto made = session_->run(std::span(&in, 1), std::span(&out, 1));
      ASSERT_TRUE(made.ok()) << made.error().text;
      out = made->at(0);
      EXPECT_EQ(out.bytes, static_cast<size_t>(batch) * 40);
    }
  }
}

// A caller that was compiled before there were devices has a smaller struct; a size of neither is a mistake.
TEST(LastRun, AnOlderTensorStaysOne) {
  constexpr size_t kOld = offsetof(peri_tensor, device_index);
  Images images(2);
  DLManagedTensor array = {};
  array.dl_tensor.data = images.values.data();
  array.dl_tensor.device.device_type = static_cast<decltype(array.dl_tensor.device.device_type)>(kDLCPU);
  array.dl_tensor.ndim = 4;
  array.dl_tensor.dtype = {kDLFloat, 32, 1};
  array.dl_tensor.shape = images.dims.data();
  alignas(peri_tensor) unsigned char memory[sizeof(peri_tensor)];
  for (const size_t said : {size_t{0}, size_t{8}, kOld - 1, size_t{64}, size_t{1000}}) {
    std::memset(memory, 0x5a, sizeof memory);
    std::memcpy(memory, &said, sizeof said);
    peri_error* wrong = peri_tensor_from_dlpack(&array, reinterpret_cast<peri_tensor*>(memory));
    EXPECT_EQ(peri_error_get_kind(wrong), PERI_ERROR_USAGE) << said;
    peri_error_free(wrong);
    EXPECT_EQ(std::count(memory + sizeof said, std::end(memory), 0x5a), std::ssize(memory) - 8) << "nothing is written";
  }
  for (const size_t said : {kOld, sizeof(peri_tensor)}) {
    std::memset(memory, 0x5a, sizeof memory);
    std::memcpy(memory, &said, sizeof said);
    ASSERT_EQ(peri_tensor_from_dlpack(&array, reinterpret_cast<peri_tensor*>(memory)), nullptr);
    size_t size = 0;
    std::memcpy(&size, memory, sizeof size);
    EXPECT_EQ(size, said);
    EXPECT_EQ(memory[kOld] == 0x5a, said != sizeof(peri_tensor)) << "nothing is written behind what the caller knows";
  }
  array.dl_tensor.device.device_type = static_cast<decltype(array.dl_tensor.device.device_type)>(kDLCUDA);
  std::memcpy(memory, &kOld, sizeof kOld);
  peri_error* error = peri_tensor_from_dlpack(&array, reinterpret_cast<peri_tensor*>(memory));
  EXPECT_EQ(peri_error_get_kind(error), PERI_ERROR_USAGE) << "no room for the index of a device";
  peri_error_free(error);
}

}  // namespace
