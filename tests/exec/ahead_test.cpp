// The library of a step is opened with the engine, on a thread beside; an engine that names none leaves it alone.
#include "exec/ahead.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "kernels/vendor/library.hpp"

namespace peri::exec {
namespace {

bool is_open() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libdnnl") != std::string::npos) return true;
  return false;
}
plan::Program with(const std::string& library) {
  plan::Program program;
  program.steps.emplace_back().variants.emplace_back().library = library;
  return program;
}

// In a process of its own each: what is open stays so.
TEST(Ahead, OpensWhatAStepNames) {
  ASSERT_FALSE(is_open()) << "the program starts without it";
  EXPECT_EQ(open_ahead(with("")), nullptr);
  EXPECT_EQ(open_ahead(with("onednn 0.0.1")), nullptr) << "that step's other variant will do";
  EXPECT_FALSE(is_open());
  EXPECT_EXIT(
      {
        auto ahead = open_ahead(with(kernels::vendor::onednn_library()));
        const bool begun = ahead != nullptr;
        ahead.reset();
        std::_Exit(begun && is_open() ? 0 : 3);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        plan::Program loop;
        loop.steps.emplace_back().bodies.push_back(
            std::make_shared<plan::Program>(with(kernels::vendor::onednn_library())));
        open_ahead(loop).reset();
        std::_Exit(is_open() ? 0 : 3);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace peri::exec
