// The committed PTX of the Triton example is machine code for the chips that its manifest names, as NVIDIA's own
// compiler for PTX sees it, where there is one; no GPU is needed.
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "device/cuda/library.hpp"
#include "tests/places.hpp"

namespace peri::device::cuda {
namespace {
using Linker = struct LinkerTag*;
constexpr int kPtx = 2;  // enum nvJitLinkInputType: NVJITLINK_INPUT_PTX

TEST(CudaPtx, TheTritonExampleCompilesForItsChips) {
  const auto library = open_library(Vendor::kNvJitLink);
  if (!library.ok()) GTEST_SKIP() << library.error().text();
  const std::string prefix = "__nvJitLink";
  const std::string suffix = format("_%d_%d", library->version().major, library->version().minor);
  int (*create)(Linker*, uint32_t, const char**) = nullptr;
  int (*add)(Linker, int, const void*, size_t, const char*) = nullptr;
  int (*complete)(Linker) = nullptr;
  int (*bytes)(Linker, size_t*) = nullptr;
  int (*log_bytes)(Linker, size_t*) = nullptr;
  int (*log)(Linker, char*) = nullptr;
  int (*destroy)(Linker*) = nullptr;
  ASSERT_TRUE(library->find((prefix + "Create" + suffix).c_str(), &create).ok());
  ASSERT_TRUE(library->find((prefix + "AddData" + suffix).c_str(), &add).ok());
  ASSERT_TRUE(library->find((prefix + "Complete" + suffix).c_str(), &complete).ok());
  ASSERT_TRUE(library->find((prefix + "GetLinkedCubinSize" + suffix).c_str(), &bytes).ok());
  ASSERT_TRUE(library->find((prefix + "GetErrorLogSize" + suffix).c_str(), &log_bytes).ok());
  ASSERT_TRUE(library->find((prefix + "GetErrorLog" + suffix).c_str(), &log).ok());
  ASSERT_TRUE(library->find((prefix + "Destroy" + suffix).c_str(), &destroy).ok());
  const auto ptx = read_file(std::string(tests::kSourceDir) + "/examples/triton/softmax_f16.ptx", 1 << 20);
  ASSERT_TRUE(ptx.ok()) << ptx.error().text();
  for (const char* const arch : {"-arch=sm_80", "-arch=sm_90"}) {
    for (const bool broken : {false, true}) {
      const char* options[] = {arch};
      Linker linker = nullptr;
      ASSERT_EQ(create(&linker, 1, options), 0);
      const std::string text = broken ? *ptx + "}" : *ptx;
      const int added = add(linker, kPtx, text.c_str(), text.size() + 1, "softmax_f16.ptx");
      const int done = added == 0 ? complete(linker) : added;
      size_t size = 0;
      std::string said;
      if (log_bytes(linker, &size) == 0 && size > 0) {
        said.resize(size);
        log(linker, said.data());
      }
      EXPECT_EQ(done == 0, !broken) << arch << ": " << said;
      size = 0;
      if (done == 0) EXPECT_TRUE(bytes(linker, &size) == 0 && size > 0);
      EXPECT_EQ(destroy(&linker), 0);
    }
  }
}

}  // namespace
}  // namespace peri::device::cuda
