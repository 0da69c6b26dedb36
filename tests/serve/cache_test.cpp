// Answers that were given before, batches that shrink for want of memory, and what a machine says of its memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/file.hpp"
#include "serve/memory/ram.hpp"
#include "serve/observe/process.hpp"
#include "serve/queue/model.hpp"
#include "tests/serve/fake_servable.hpp"

namespace peri::serve {
namespace {

std::vector<Tensor> row_of(float v) { return {Tensor::of_f32({1, 2}, std::vector<float>{v, v + 1})}; }

void wait_for(const std::function<bool()>& what) {
  while (!what()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

TEST(ResponseCache, KeepsWhatWasAskedForLately) {
  ResponseCache cache(10 * (2 * (128 + 8)));
  const uint64_t a = 1, b = 2;
  cache.put(a, row_of(1), row_of(10));
  ASSERT_TRUE(cache.find(a, row_of(1)));
  EXPECT_TRUE((*cache.find(a, row_of(1)))[0].same_content(row_of(10)[0]));
  EXPECT_FALSE(cache.find(b, row_of(1))) << "another model";
  EXPECT_FALSE(cache.find(a, row_of(2)));
  for (float k = 2; k < 40; ++k) {
    cache.put(a, row_of(k), row_of(10 * k));
    EXPECT_TRUE(cache.find(a, row_of(1))) << "asked for all the time";
    EXPECT_LE(cache.bytes(), 10u * (2 * (128 + 8)));
  }
  EXPECT_FALSE(cache.find(a, row_of(2)));
  EXPECT_TRUE(cache.find(a, row_of(39)));
  const std::vector<Tensor> large = {*Tensor::zeros(DType::kF32, {1000})};
  cache.put(b, large, row_of(1));
  EXPECT_FALSE(cache.find(b, large)) << "too large to be worth it";
}

TEST(ResponseCache, AModelAnswersFromIt) {
  const auto fake = std::make_shared<FakeServable>();
  ModelOptions options;
  options.cache = std::make_shared<ResponseCache>(1 << 20);
  Model model("m", 1, fake, options), other("n", 1, fake, options);
  const auto ask = [&](Model& m, float v) {
    auto call = std::make_shared<Call>();
    call->inputs = row_of(v);
    std::atomic<int> answered{0};
    double got = 0;
    call->done = [&](Answer a) {
      got = a.error ? -1 : a.outputs[0].f64(0);
      ++answered;
    };
    m.submit(call);
    wait_for([&] { return answered == 1; });
    return got;
  };
  for (int k = 0; k < 3; ++k) EXPECT_EQ(ask(model, 5), 10);
  EXPECT_EQ(fake->runs, 1u);
  EXPECT_EQ(ask(other, 5), 10);
  EXPECT_EQ(fake->runs, 2u);
  for (int k = 0; k < 2; ++k) EXPECT_EQ(ask(model, -5), -1) << "errors are not kept";
  EXPECT_EQ(fake->runs, 4u);
  EXPECT_EQ(model.statistics().cache_hits.count, 2u);
  EXPECT_EQ(model.statistics().cache_misses.count, 3u);
  const ModelStatistics s = model.statistics();
  EXPECT_EQ(s.success.count, 3u);
  EXPECT_EQ(s.request_times.count(), 3u) << "an answer from the cache has a time, too";
  EXPECT_EQ(std::accumulate(s.latency.begin(), s.latency.end(), uint64_t{0}), 3u);
  EXPECT_EQ(s.infer_times.count(), 1u);
}

// Has no memory for more rows than so many.
class Small final : public runtime::Servable {
 public:
  std::span<const plan::Port> inputs() const override { return fake_.inputs(); }
  std::span<const plan::Port> outputs() const override { return fake_.outputs(); }
  int slots() const override { return 1; }
  bool cancel(uint64_t) override { return false; }
  runtime::Cost cost(std::span<const Tensor> t) const override { return fake_.cost(t); }
  uint64_t progress() const override { return fake_.progress(); }
  void submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink) override {
    largest = std::max<int64_t>(largest, tensors[0].dims()[0]);
    if (tensors[0].dims()[0] > most) {
      ++refused;
      return sink->answer(Error(ErrorKind::kMemory, "no memory"), true);
    }
    fake_.submit(ticket, std::move(tensors), std::move(sink));
  }
  std::atomic<int64_t> most{3}, largest{0}, refused{0};

 private:
  FakeServable fake_;
};

TEST(Memory, BatchesShrinkInPlaceOfFailing) {
  const auto small = std::make_shared<Small>();
  ModelOptions options;
  for (int64_t k = 1; k <= 16; ++k) options.queue.sizes.push_back(k);
  Model model("m", 1, small, options);
  std::atomic<int> right{0}, wrong{0};
  constexpr int kCalls = 3000;
  for (int k = 0; k < kCalls; ++k) {
    auto call = std::make_shared<Call>();
    call->inputs = row_of(static_cast<float>(k));
    call->done = [&, k](Answer a) { ++(!a.error && a.outputs[0].f64(0) == 2.0 * k ? right : wrong); };
    model.submit(call);
  }
  wait_for([&] { return right + wrong == kCalls; });
  EXPECT_EQ(wrong, 0);
  EXPECT_LT(small->refused, 60) << "batches of a size that failed are not tried for long";
  EXPECT_GT(model.statistics().cuts[static_cast<size_t>(CutReason::kMemory)], 100u);
}

TEST(Memory, WhatAMachineSays) {
  namespace fs = std::filesystem;
  EXPECT_TRUE(read_ram().known());
  EXPECT_GT(resident_bytes(), 1 << 20);
  const fs::path root = fs::path(::testing::TempDir()) / ("peri_ram_test_" + std::to_string(getpid()));
  fs::create_directories(root / "proc");
  fs::create_directories(root / "sys/fs/cgroup");
  const auto write = [&](const char* name, const char* text) {
    ASSERT_TRUE(write_file_atomic((root / name).string(), text).ok());
  };
  EXPECT_FALSE(read_ram(root.string()).known());
  write("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\n");
  EXPECT_EQ(read_ram(root.string()).available_bytes, 600 * 1024);
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(read_ram(root.string()).total_bytes, 1000 * 1024);
  write("sys/fs/cgroup/memory.max", "500000\n");
  write("sys/fs/cgroup/memory.current", "450000\n");
  write("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 30000\n");
  EXPECT_EQ(read_ram(root.string()).total_bytes, 500000);
  EXPECT_EQ(read_ram(root.string()).available_bytes, 80000);
  EXPECT_NEAR(read_ram(root.string()).used_share(), 0.84, 1e-9);
  EXPECT_EQ(process_use(root.string()).total_bytes, 500000u) << "as metrics and the dashboard tell it";
  EXPECT_EQ(process_use(root.string()).used_bytes, 420000u);
  fs::remove_all(root);
}

}  // namespace
}  // namespace peri::serve
