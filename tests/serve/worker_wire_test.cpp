// What is said on a worker's socket, and what is no such thing: an error, in memory for what has come and not for what
// is stated.
#include "serve/worker/wire.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <thread>

#include "base/file.hpp"
#include "base/rng.hpp"
#include "serve/worker/tensor_block.hpp"
#include "serve/worker/worker.hpp"
#include "tests/serve/fake_servable.hpp"

namespace peri::serve {
namespace {

// What comes of bytes on a socket whose other end is closed behind them.
Result<Frame> frame_of(const std::string& bytes) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Fd near(ends[0]), far(ends[1]);
  std::thread sender([&] {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = send(far.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    shutdown(far.get(), SHUT_WR);
  });
  auto out = receive_frame(near.get());
  shutdown(near.get(), SHUT_RDWR);
  sender.join();
  return out;
}

std::string framed(uint64_t text, uint64_t bytes, const std::string& rest) {
  const uint64_t head[2] = {text, bytes};
  return std::string(reinterpret_cast<const char*>(head), sizeof head) + rest;
}
std::string framed(const std::string& text, const std::string& bytes = "") {
  return framed(text.size(), bytes.size(), text + bytes);
}

TEST(WorkerWire, FramesComeAsTheyWereSent) {
  const std::string bytes(3'000'000, 'x');
  const auto frame = frame_of(framed(R"({"a":1})", bytes));
  ASSERT_TRUE(frame.ok()) << frame.error().text();
  EXPECT_EQ(frame->json.get_int("a").value(), 1);
  ASSERT_EQ(frame->bytes->size(), bytes.size());
  EXPECT_EQ(std::memcmp(frame->bytes->data(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(frame_of(framed("{}"))->bytes, nullptr);
}

TEST(WorkerWire, WhatIsNoFrameIsAnError) {
  const std::string good = framed(R"({"ready":true})", "abc");
  for (size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_EQ(frame_of(good.substr(0, cut)).error().kind, ErrorKind::kIo) << cut;
  for (const auto& [text, bytes] : std::initializer_list<std::pair<uint64_t, uint64_t>>{
           {UINT64_MAX, 0}, {0, UINT64_MAX}, {(uint64_t{64} << 20) + 1, 0}, {2, (uint64_t{1} << 32) + 1}})
    EXPECT_EQ(frame_of(framed(text, bytes, "{}")).error().kind, ErrorKind::kInvalid);
  for (const char* text : {"", "{", "x", "\xff\xfe", "{} {}", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["})
    EXPECT_EQ(frame_of(framed(text)).error().kind, ErrorKind::kInvalid) << text;
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (const uint64_t stated : {uint64_t{1} << 32, uint64_t{3} << 30})
    EXPECT_EQ(frame_of(framed(2, stated, "{}some")).error().kind, ErrorKind::kIo);
  EXPECT_EQ(frame_of(framed(uint64_t{64} << 20, 0, "{}")).error().kind, ErrorKind::kIo);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 32 << 10) << "KiB for a few bytes that came";
}

TEST(WorkerWire, NoiseIsAnErrorOrAFrame) {
  const uint64_t seed = 9;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  const std::string good = framed(R"({"load":{"model":1,"name":"m"}})", "0123456789");
  for (int k = 0; k < 500; ++k) {
    std::string harmed = good;
    for (int n = 0; n < 3; ++n) harmed[rng.below(harmed.size())] = static_cast<char>(rng.below(256));
    harmed[3] = harmed[4] = harmed[5] = harmed[6] = harmed[7] = 0;
    (void)frame_of(harmed).ok();
  }
}

Json copy(const Json& j) { return *parse_json(JsonWriter().value(j).text()); }

// The object with a member, at any depth, of another kind or left out, one after the other.
void each_harmed(const Json& whole, const std::function<void(const Json&)>& take) {
  for (const Json::Member& harmed : whole.members()) {
    const auto with = [&](const Json* value) {
      Json::Object members;
      for (const Json::Member& m : whole.members())
        if (m.key != harmed.key || value) members.push_back({m.key, copy(m.key == harmed.key ? *value : m.value)});
      take(*Json::object(std::move(members)));
    };
    with(nullptr);
    for (const char* text : {"null", "true", "-1", "-9223372036854775808", "18446744073709551615", "1e300", R"("x")",
                             "[null,1]", "[-1]", "[[]]", "{}"}) {
      const Json value = *parse_json(text);
      with(&value);
    }
    if (harmed.value.is_object()) each_harmed(harmed.value, [&](const Json& inner) { with(&inner); });
  }
}

TEST(WorkerWire, OrdersComeBackAndHarmedOnesAreErrors) {
  LoadOrder order;
  order.name = "m";
  order.version = 3;
  order.path = "/a/model.engine";
  order.stamp = UINT64_MAX;
  order.known_sizes = {1, 2, 4};
  order.instances = 2;
  order.config = *parse_model_config("max_batch_size: 4", "config.pbtxt");
  const auto text = parse_json(order_text(order, 7));
  ASSERT_TRUE(text.ok());
  uint32_t model = 0;
  const auto back = read_order(*text->find("load"), &model);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(model, 7u);
  EXPECT_EQ(back->stamp, UINT64_MAX);
  EXPECT_EQ(back->known_sizes, order.known_sizes);
  EXPECT_EQ(back->config.max_batch_size, 4);
  int refused = 0, harmed = 0;
  each_harmed(*text->find("load"), [&](const Json& j) {
    ++harmed;
    refused += read_order(j, &model).ok() ? 0 : 1;
  });
  EXPECT_GT(refused, harmed / 2);
}

TEST(WorkerWire, WhatWasLoadedComesBackAndHarmedOnesAreErrors) {
  Loaded loaded;
  loaded.servable = std::make_shared<FakeServable>();
  loaded.backend = "cpu";
  loaded.batch_sizes = {1, 2};
  loaded.canary.inputs = {Tensor::of_f32({1, 2}, std::vector<float>{1, 2})};
  loaded.canary.outputs = {Tensor::of_f32({1, 2}, std::vector<float>{3, 4})};
  loaded.sections["t"] = "text";
  loaded.told["peri_fixed_dims"] = "n=1";
  const std::vector<Tensor> tensors = {loaded.canary.inputs[0], loaded.canary.outputs[0],
                                       *Tensor::strings({1}, {"text"})};
  Frame frame;
  frame.json = *parse_json(loaded_text(loaded));
  frame.bytes = std::make_shared<std::vector<std::byte>>(block_bytes(tensors));
  write_block(tensors, *frame.bytes);
  const auto back = read_loaded(frame);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(back->loaded.canary.outputs.size(), 1u);
  EXPECT_EQ(back->loaded.sections.at("t"), "text");
  EXPECT_EQ(back->loaded.told, loaded.told);
  int refused = 0, harmed = 0;
  each_harmed(frame.json, [&](const Json& j) {
    ++harmed;
    const auto read = read_loaded({copy(j), frame.bytes});
    refused += read.ok() ? 0 : 1;
    if (!read.ok()) return;
    EXPECT_LE(read->loaded.canary.inputs.size(), 3u);
    EXPECT_TRUE(read->slots >= 1 && read->slots <= 1024);
    for (const int64_t size : read->loaded.batch_sizes) EXPECT_GT(size, 0);
  });
  EXPECT_GT(refused, harmed / 2);
}

// A program that says something else than a worker.
TEST(WorkerWire, AWorkerThatSaysNoiseIsNone) {
  for (const char* words : {"head -c 100 /dev/zero >&3", "head -c 100 /dev/urandom >&3", "echo hello >&3", "exit 0"}) {
    WorkerOptions o;
    o.program = "/bin/sh";
    o.arguments = {"-c", words};
    o.memory_bytes = 1 << 20;
    EXPECT_EQ(Worker::start(o).error().kind, ErrorKind::kRefused) << words;
  }
}

}  // namespace
}  // namespace peri::serve
