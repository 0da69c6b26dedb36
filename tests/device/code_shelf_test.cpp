// Code is compiled once for all who ask, ahead of time where it is foreseen, and what fails is told to each.
#include "device/cuda/code_shelf.hpp"

#include <gtest/gtest.h>

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
    auto compiler = Compiler::open("");
    ASSERT_TRUE(compiler.ok()) << compiler.error().text();
    shelf_.emplace(std::move(*compiler));
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

TEST_F(Shelf, EndsWithWorkThatNobodyWaitedFor) {
  for (int k = 0; k < 200; ++k) shelf_->foresee(source("text " + std::to_string(k)));
  shelf_.reset();
}

}  // namespace
}  // namespace peri::device::cuda
