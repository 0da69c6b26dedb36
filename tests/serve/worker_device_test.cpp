// A worker process whose device fails for good, or is away for a while.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <cstdio>

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

// A device may be away for a while.
TEST(WorkerDevice, WhatCouldNotBeLoadedAgainIsTriedAgain) {
  const std::string path = testing::TempDir() + "/late_" + std::to_string(getpid());
  const auto place = [&] { std::fclose(std::fopen(path.c_str(), "w")); };
  WorkerOptions o = fakes();
  o.retry_ns = 50'000'000;
  auto worker = Worker::start(o);
  ASSERT_TRUE(worker.ok()) << worker.error().text();
  LoadOrder order = order_of("late");
  order.path = path;
  place();
  auto loaded = load(**worker, order);
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  std::remove(path.c_str());
  kill(static_cast<pid_t>((*worker)->counts().pid), SIGKILL);
  wait_for([&] { return loaded->servable->trouble().find("could not be loaded again") != std::string::npos; });
  EXPECT_FALSE(ask(*loaded->servable, {3, 4})->wait().ok());
  place();
  wait_for([&] { return loaded->servable->trouble().empty(); });
  EXPECT_EQ((*ask(*loaded->servable, {3, 4})->wait())[0].f64(1), 8);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace peri::serve
