// What ptxas says of each text.
#include "tests/tune/cuda_chips.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <utility>

#include "device/cuda/compiler.hpp"

namespace peri::tune {
using kernels::cuda::KernelLaunch;

OwnMemory own_memory(const std::string& log) {
  OwnMemory out;
  int kernels = 0;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(" bytes stack frame");
    if (at == line.npos) continue;
    int stack = 0, stores = 0, loads = 0;
    const size_t begin = line.rfind(' ', at - 1) + 1;
    EXPECT_EQ(std::sscanf(line.c_str() + begin, "%d bytes stack frame, %d bytes spill stores, %d bytes spill loads",
                          &stack, &stores, &loads),
              3)
        << line;
    out.stack = std::max(out.stack, stack);
    out.spilled = std::max(out.spilled, stores + loads);
    ++kernels;
  }
  EXPECT_GT(kernels, 0) << "the log says nothing of memory: " << log;
  return out;
}

// Kernels that may keep something in memory of their own, in bytes of a thread. All others keep nothing there.
struct Stated {
  std::string_view kernel, chip;
  int64_t bytes;
};
constexpr Stated kStated[] = {
    // Some forms of several axes, round the calls that divide 64-bit sizes.
    {"cuda_grid_sample", "sm_100a", 8},
    // Tiles of 128 by 128 with 64 sums of float64, or of float32, in each thread.
    {"cuda_gemm", "sm_90a", 64},
    {"cuda_conv", "sm_90a", 64},
    {"cuda_attention_products", "sm_90a", 64},
    {"cuda_conv_transpose_product", "sm_90a", 64},
    // Addresses of 32 keys' values beside the sums of 64 columns.
    {"cuda_attention_bytes", "sm_90a", 64},
    {"cuda_gemm", "sm_80", 64},
    {"cuda_conv", "sm_80", 64},
    {"cuda_attention_products", "sm_80", 64},
    {"cuda_conv_transpose_product", "sm_80", 64},
};
int64_t stated_bytes(std::string_view kernel, std::string_view chip) {
  for (const Stated& s : kStated)
    if (s.kernel == kernel && s.chip == chip) return s.bytes;
  return 0;
}

void compile_texts(const device::cuda::Compiler& compiler, const std::vector<Case>& cases, const Wanted& wanted) {
  const auto known = compiler.chips();
  ASSERT_TRUE(known.ok()) << known.error().text();
  std::map<std::string, const KernelLaunch*> texts;  // the longest
  for (const Case& c : cases)
    for (const KernelLaunch& l : c.launches()) {
      const KernelLaunch*& kept = texts[std::string(c.kernel->name) + " {" + c.config + "}"];
      if (!kept || kept->text.size() < l.text.size()) kept = &l;
    }
  int compiled = 0;
  for (const char* chip : {"sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
    if (std::find(known->begin(), known->end(), std::atoi(chip + 3)) == known->end()) continue;
    std::string_view last;
    for (const auto& [name, launch] : texts) {
      const std::string_view kernel = std::string_view(name).substr(0, name.find(' '));
      if (launch->cluster > 1 && std::atoi(chip + 3) < 90) continue;  // no such chip is given one
      if (!wanted(name, chip, std::exchange(last, kernel) != kernel)) continue;
      const auto code = compiler.compile({name, launch->text, chip});
      ASSERT_TRUE(code.ok()) << name << ": " << code.error().text();
      EXPECT_NE(code->cubin.find(launch->entry), std::string::npos) << name;
      EXPECT_EQ(code->log.find("warning"), std::string::npos) << name << ": " << code->log;
      const OwnMemory own = own_memory(code->log);
      const int64_t stated = stated_bytes(kernel, chip);
      EXPECT_LE(own.stack, stated) << name << " for " << chip;
      EXPECT_LE(own.spilled, stated) << name << " for " << chip;
      ++compiled;
    }
  }
  EXPECT_GT(compiled, std::getenv("TEST_KERNELS") ? 0 : 20);
}

}  // namespace peri::tune
