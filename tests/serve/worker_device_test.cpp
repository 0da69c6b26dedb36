// A worker process whose device fails for good, or is away for a while.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <span>

#include "base/file.hpp"
#include "tests/serve/hosted.hpp"

namespace peri::serve {
namespace {

// By the first error of its kind the process ends: what is under way is told so, all else is answered by the next one.
TEST(WorkerDevice, OneWhoseDeviceFailsIsReplaced) {
  WorkerOptions o = fakes();
  std::mutex mutex;
  std::string said;
  o.log = [&](const LogLine& line) {
    const std::lock_guard<std::mutex> lock(mutex);
    said += line.text + "\n";
  };
  auto worker = Worker::start(o);
  ASSERT_TRUE(worker.ok()) << worker.error().text();
  auto loaded = load(**worker, order_of("m")), other = load(**worker, order_of("n"));
  ASSERT_TRUE(loaded.ok() && other.ok());
  constexpr uint64_t kRounds = 20;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    const auto beside = ask(*other->servable, {14, 0}, 1, 5);
    const auto fails = ask(*loaded->servable, {16, 0}, 1, 6);
    for (const auto& c : {fails, beside}) {
      const Error e = c->wait().error();
      EXPECT_EQ(e.kind, ErrorKind::kRefused);
      EXPECT_NE(e.message.find("lost its device while it was at this request, which may be sent again"),
                std::string::npos)
          << e.message;
    }
    for (const auto& l : {&*loaded, &*other}) {  // waits for the next one, and is not lost
      const auto good = ask(*l->servable, {3, 4});
      ASSERT_TRUE(good->wait().ok()) << good->wait().error().text();
      EXPECT_EQ((*good->wait())[0].f64(1), 8);
    }
  }
  const WorkerCounts counts = (*worker)->counts();
  EXPECT_EQ(counts.deaths, kRounds);
  EXPECT_EQ(counts.ends[static_cast<size_t>(WorkerEnd::kDevice)], kRounds);
  EXPECT_EQ(counts.lost_requests, 2 * kRounds);
  const auto over_a_load = load(**worker, order_of("trap"));
  EXPECT_NE(over_a_load.error().message.find("ended over loading"), std::string::npos) << over_a_load.error().text();
  wait_for([&] { return (*worker)->counts().deaths == kRounds + 1 && loaded->servable->trouble().empty(); });
  EXPECT_TRUE(ask(*loaded->servable, {3, 4})->wait().ok()) << "nobody is left with a device that failed";
  kill(static_cast<pid_t>((*worker)->counts().pid), SIGKILL);
  wait_for([&] { return (*worker)->counts().ends[static_cast<size_t>(WorkerEnd::kSignal)] == 1; });
  const std::lock_guard<std::mutex> lock(mutex);
  EXPECT_NE(said.find("worker: lost its device (fake:0? is lost, after 'a kernel') with 2 requests under way"),
            std::string::npos)
      << said;
}

// Models that load while there is a file for them.
class LateModels : public testing::Test {
 protected:
  LateModels() {
    WorkerOptions o = fakes();
    o.retry_ns = 50'000'000;
    auto started = Worker::start(o);
    EXPECT_TRUE(started.ok()) << started.error().text();
    worker_ = *std::move(started);
  }
  ~LateModels() override {
    for (const std::string& path : paths_) std::remove(path.c_str());
  }
  Loaded loaded() {
    paths_.push_back(testing::TempDir() + "/late_" + std::to_string(getpid()) + "_" + std::to_string(paths_.size()));
    LoadOrder order = order_of("late");
    order.path = paths_.back();
    place(paths_.size() - 1, "");
    auto out = load(*worker_, order);
    EXPECT_TRUE(out.ok()) << out.error().text();
    return *std::move(out);
  }
  void place(size_t k, const char* says) const { EXPECT_TRUE(write_file_atomic(paths_[k], says).ok()); }
  // The worker has come back without them.
  void lose(std::span<const Loaded* const> models) {
    for (const std::string& path : paths_) std::remove(path.c_str());
    kill(static_cast<pid_t>(worker_->counts().pid), SIGKILL);
    for (const Loaded* m : models)
      wait_for([&] { return m->servable->trouble().find("could not be loaded again") != std::string::npos; });
  }
  std::unique_ptr<Worker> worker_;
  std::vector<std::string> paths_;
};

// A device may be away for a while.
TEST_F(LateModels, WhatCouldNotBeLoadedAgainIsTriedAgain) {
  const Loaded m = loaded();
  lose(std::array{&m});
  EXPECT_FALSE(ask(*m.servable, {3, 4})->wait().ok());
  place(0, "");
  wait_for([&] { return m.servable->trouble().empty(); });
  EXPECT_EQ((*ask(*m.servable, {3, 4})->wait())[0].f64(1), 8);
}

TEST_F(LateModels, OneThatEndsTheProcessIsLeftAndNoOtherIsBlamed) {
  const Loaded deadly = loaded(), good = loaded();
  lose(std::array{&deadly, &good});
  place(0, "kill");
  wait_for([&] { return deadly.servable->trouble().find("ends the worker process") != std::string::npos; });
  place(1, "");
  wait_for([&] { return good.servable->trouble().empty(); });
  EXPECT_EQ((*ask(*good.servable, {3, 4})->wait())[0].f64(1), 8);
}

// Whatever it takes: others are served, a process that ends is seen, and the worker can be ended.
TEST_F(LateModels, ALoadThatDoesNotEndHoldsNobodyUp) {
  const Loaded stands = loaded();
  auto good = load(*worker_, order_of("good"));
  ASSERT_TRUE(good.ok());
  lose(std::array{&stands});
  place(0, "hang");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it is asked meanwhile
  EXPECT_EQ((*ask(*good->servable, {3, 4})->wait())[0].f64(1), 8);
  std::remove(paths_[0].c_str());
  const uint64_t deaths = worker_->counts().deaths;
  kill(static_cast<pid_t>(worker_->counts().pid), SIGKILL);
  wait_for([&] { return worker_->counts().deaths == deaths + 1 && good->servable->trouble().empty(); });
  EXPECT_EQ((*ask(*good->servable, {3, 4})->wait())[0].f64(1), 8);
  place(0, "hang");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  worker_.reset();  // and here nothing is waited for
}

}  // namespace
}  // namespace peri::serve
