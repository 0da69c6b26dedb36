// Code is compiled once for all who ask, ahead of time where it is foreseen, and what fails is told to each.
#include "device/cuda/code_shelf.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <future>
#include <system_error>
#include <thread>

#include "tests/device/cuda_fakes.hpp"

namespace peri::device::cuda {
namespace {
using device::tests::Fakes;

Source source(const std::string& text) { return {"a kernel", text, "sm_90"}; }

class Shelf : public testing::Test {
 protected:
  void SetUp() override {
    Fakes::control<void(long, int)>("nvrtc", "fake_nvrtc_fail")(0, 0);
    shelf_.emplace(compiler());
  }
  static std::unique_ptr<Compiler> compiler() {
    auto made = Compiler::open("");
    EXPECT_TRUE(made.ok()) << made.error().text();
    return std::move(*made);
  }
  Fakes fakes_{{"libnvrtc.so.13", "nvrtc"}, {"libcuda.so.1", "driver"}};
  std::optional<CodeShelf> shelf_;
};

TEST_F(Shelf, WhatManyAskForIsCompiledOnce) {
  std::vector<std::thread> threads;
  std::vector<std::string> got(8);
  for (size_t k = 0; k < got.size(); ++k)
    threads.emplace_back([&, k] {
      const auto code = shelf_->get(source("text " + std::to_string(k % 2)));
      if (code.ok()) got[k] = (*code)->cubin;
    });
  for (std::thread& t : threads) t.join();
  for (size_t k = 0; k < got.size(); ++k) EXPECT_EQ(got[k], "text " + std::to_string(k % 2));
  EXPECT_EQ(shelf_->compiler().counts().compiled, 2);
}

TEST_F(Shelf, WhatIsForeseenIsCompiledOnce) {
  for (int round = 0; round < 2; ++round)
    for (int k = 0; k < 50; ++k) shelf_->foresee(source("text " + std::to_string(k)));
  for (int k = 49; k >= 0; --k) {
    const auto code = shelf_->get(source("text " + std::to_string(k)));
    ASSERT_TRUE(code.ok()) << code.error().text();
    EXPECT_EQ((*code)->cubin, "text " + std::to_string(k));
  }
  EXPECT_EQ(shelf_->compiler().counts().compiled, 50);
}

TEST_F(Shelf, WhatFailsIsToldAndTriedAgain) {
  shelf_->foresee(source("broken"));
  for (int k = 0; k < 2; ++k) {
    const auto code = shelf_->get(source("broken"));
    ASSERT_FALSE(code.ok());
    EXPECT_EQ(code.error().kind, ErrorKind::kRefused);
  }
}

// Whoever compiles it: a thread ahead of time, or the one that asks.
TEST_F(Shelf, AnyCallOfTheCompilerThatFailsIsToldAndTheNextIsRight) {
  const auto live = Fakes::control<long()>("nvrtc", "fake_nvrtc_live");
  for (const bool ahead : {true, false}) {
    int failures = 0;
    for (long call = 1; call <= 20; ++call) {
      SCOPED_TRACE(call);
      CodeShelf shelf(compiler());
      Fakes::control<void(long, int)>("nvrtc", "fake_nvrtc_fail")(call, 1);
      if (ahead) shelf.foresee(source("text"));
      auto code = shelf.get(source("text"));
      if (!code.ok()) {
        ++failures;
        EXPECT_NE(code.error().kind, ErrorKind::kInternal) << code.error().text();
        EXPECT_FALSE(code.error().text().empty());
        EXPECT_EQ(shelf.held().entries, 0u) << "what failed is tried again";
        code = shelf.get(source("text"));
      }
      ASSERT_TRUE(code.ok()) << code.error().text();
      EXPECT_EQ((*code)->cubin, "text");
      EXPECT_EQ(live(), 0);
    }
    // How many chips there are, which, a program, its compilation, the length of the code, the code; without a log
    // there is code.
    EXPECT_EQ(failures, 6) << ahead;
  }
}

// A compiler that throws has told who waits for it, on its own threads too, which go on.
TEST_F(Shelf, WhatThrowsIsToldAndThreadsGoOn) {
  for (int k = 0; k < 8; ++k) shelf_->foresee(source("throws " + std::to_string(k)));
  shelf_->foresee(source("text"));
  for (int k = 0; k < 8; ++k) {
    const auto code = shelf_->get(source("throws " + std::to_string(k)));
    ASSERT_FALSE(code.ok());
    EXPECT_EQ(code.error().kind, ErrorKind::kInternal) << code.error().text();
  }
  EXPECT_TRUE(shelf_->get(source("text")).ok());
}

TEST_F(Shelf, WithoutThreadsWhoAsksCompiles) {
  const CodeShelf::Begin none = [](std::function<void()>) -> std::thread {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  CodeShelf shelf(compiler(), CodeShelf::kMaxBytes, none);
  for (int k = 0; k < 4; ++k) shelf.foresee(source("text " + std::to_string(k)), k % 2 == 0);
  EXPECT_EQ(shelf.held().entries, 0u) << "nobody comes for what waits";
  EXPECT_TRUE(shelf.get(source("text 1")).ok());
  EXPECT_EQ(shelf.compiler().counts().compiled, 1);
}

TEST_F(Shelf, KeepsTheNewestOfWhatNobodyHolds) {
  constexpr size_t kBytes = 100;
  CodeShelf shelf(compiler(), 10 * kBytes);
  const auto text = [](int k) { return format("text %0*d", static_cast<int>(kBytes) - 10, k); };
  std::vector<std::shared_ptr<const Code>> mine;
  for (int k = 0; k < 50; ++k) {
    auto code = shelf.get(source(text(k)));
    ASSERT_TRUE(code.ok());
    mine.push_back(*std::move(code));
    EXPECT_LE(shelf.held().bytes, 10 * kBytes);
  }
  EXPECT_LE(shelf.held().entries, 10u);
  EXPECT_EQ(mine.front()->cubin, text(0)) << "who holds it has it";
  EXPECT_TRUE(shelf.get(source(text(49))).ok());
  EXPECT_EQ(shelf.compiler().counts().compiled, 50);
  EXPECT_TRUE(shelf.get(source(text(0))).ok());
  EXPECT_EQ(shelf.compiler().counts().compiled, 51);
  EXPECT_TRUE(shelf.get(source(std::string(20 * kBytes, 'x'))).ok());
  EXPECT_EQ(shelf.held().entries, 1u) << "one that is larger than all is held alone";
}

TEST_F(Shelf, WhatWaitsBecomesUrgent) {
  std::promise<void> open;
  const std::shared_future<void> gate = open.get_future().share();
  int begun = 0;
  const CodeShelf::Begin one = [&](std::function<void()> run) {
    if (++begun > 1) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    return std::thread([gate, run = std::move(run)] {
      gate.wait();
      run();
    });
  };
  CodeShelf shelf(compiler(), CodeShelf::kMaxBytes, one);
  for (int k = 0; k < 3; ++k) shelf.foresee(source("text " + std::to_string(k)));
  shelf.foresee(source("text 2"), true);
  EXPECT_EQ(shelf.held().entries, 3u) << "asked for twice, it is one";
  open.set_value();
  while (shelf.compiler().counts().compiled < 3) std::this_thread::yield();
  EXPECT_STREQ(Fakes::control<const char*()>("nvrtc", "fake_nvrtc_first")(), "text 2");
  for (int k = 0; k < 3; ++k) EXPECT_TRUE(shelf.get(source("text " + std::to_string(k))).ok());
  EXPECT_EQ(shelf.compiler().counts().compiled, 3);
}

// On a machine that is shared what is waited for would come late.
TEST_F(Shelf, ThreadsThatCompileAheadWeighAsMuchAsTheirProcess) {
  using Told = std::pair<int, int>;
  const auto of_thread = [] { return Told{getpriority(PRIO_PROCESS, 0), sched_getscheduler(0)}; };
  std::promise<Told> told;
  const CodeShelf::Begin asked = [&](std::function<void()> run) {
    return std::thread([&, run = std::move(run)] {
      run();
      told.set_value(of_thread());
    });
  };
  {
    CodeShelf shelf(compiler(), CodeShelf::kMaxBytes, asked);
    shelf.foresee(source("text"));
    EXPECT_TRUE(shelf.get(source("text")).ok());
  }
  EXPECT_EQ(told.get_future().get(), of_thread());
}

TEST_F(Shelf, EndsWithWorkThatNobodyWaitedFor) {
  for (int k = 0; k < 200; ++k) shelf_->foresee(source("text " + std::to_string(k)));
  shelf_.reset();
}

}  // namespace
}  // namespace peri::device::cuda
