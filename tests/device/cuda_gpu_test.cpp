// The CUDA device on a GPU: every rule, code of the wrong chip, a kernel that goes astray, and the same bits a thousand
// times. What is found of machine and libraries is printed.
// label: gpu
#include <algorithm>
#include <cstdio>

#include "device/cuda/nvml.hpp"
#include "tests/device/cuda_kernels.hpp"

namespace peri::device::tests {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    auto device = cuda::make_cuda_device();
    ASSERT_TRUE(device.ok()) << device.error().text();
    device_ = *std::move(device);
    auto compiler = cuda::Compiler::open("");
    ASSERT_TRUE(compiler.ok()) << compiler.error().text();
    compiler_ = *std::move(compiler);
  }
  std::unique_ptr<cuda::CudaDevice> device_;
  std::unique_ptr<cuda::Compiler> compiler_;
};

TEST_F(Gpu, KeepsEveryRule) {
  for (const Rule& rule : kRules) {
    SCOPED_TRACE(rule.name);
    printf("rule %s\n", rule.name);
    Kernels kernels = must(load_kernels(*device_, *compiler_));
    rule.run(kernels);
    EXPECT_EQ(device_->counts().live, 0);
    EXPECT_EQ(device_->counts().live_bytes, 0);
  }
}

TEST_F(Gpu, TellsWhatItIs) {
  const Target& t = device_->target();
  printf("target %s\n", target_text(t).c_str());
  const cuda::GpuFacts& f = device_->facts();
  printf("facts %s pci %s clock %d kHz memory %d kHz %d bit\n", f.name.c_str(), f.pci.c_str(), f.clock_khz,
         f.memory_clock_khz, f.bus_bits);
  EXPECT_EQ(must(parse_target(target_text(t))), t);
  EXPECT_GT(t.cache_bytes(2), 1 << 20);
  EXPECT_GT(f.shared_bytes, 48 << 10);
  EXPECT_GT(f.clock_khz, 0);
  EXPECT_GT(f.bus_bits, 0);
  const auto nvml = must(cuda::Nvml::open());
  const cuda::GpuState state = must(nvml->state(f.pci));
  EXPECT_TRUE(state.sm_mhz.has_value());
  EXPECT_TRUE(state.memory_mhz.has_value());
  printf("state %u MHz, memory %u MHz, %u mW of %u, %u C, slowed by %llx\n", state.sm_mhz.value_or(0),
         state.memory_mhz.value_or(0), state.milliwatts.value_or(0), state.limit_milliwatts.value_or(0),
         state.celsius.value_or(0), static_cast<unsigned long long>(state.slowed_by.value_or(0)));
}

TEST(GpuMachine, HasEveryLibrary) {
  for (const cuda::Vendor v : cuda::vendors()) {
    const auto library = cuda::open_library(v);
    EXPECT_TRUE(library.ok()) << library.error().text();
    if (library.ok())
      printf("library %s %s %s\n", std::string(cuda::vendor_name(v)).c_str(), library->version().text().c_str(),
             library->path().c_str());
  }
}

TEST_F(Gpu, MemoryIsTakenAndGivenBack) {
  constexpr size_t kGib = size_t{1} << 30;
  const int64_t before = device_->memory().available_bytes;
  {
    const Memory m = must(device_->allocate(kGib));
    EXPECT_LE(device_->memory().available_bytes, before - static_cast<int64_t>(kGib / 2));
  }
  must(device_->synchronize());
  EXPECT_GE(device_->memory().available_bytes, before - (int64_t{256} << 20)) << "what the pool keeps is available";
  const Memory again = must(device_->allocate(kGib));
}

TEST_F(Gpu, CodeOfAnotherChipIsRefused) {
  const std::string other = device_->facts().major == 8 ? "sm_90a" : "sm_80";
  const cuda::Code code = must(compiler_->compile({"another chip", kKernels, other}));
  auto loaded = device_->load(std::as_bytes(std::span(code.cubin)));
  const Status refused = loaded.ok() ? Status([&]() -> Status {
    PERI_ASSIGN(const cuda::Kernel k, (*loaded)->kernel("peri_scale"));
    return Ok{};
  }())
                                     : Status(loaded.error());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported) << refused.error().text();
  printf("another chip: %s\n", refused.error().text().c_str());
}

// More dynamic shared memory than a kernel has unasked, in clusters, begun before its predecessor ended.
constexpr const char* kShared = R"(
extern "C" __global__ void peri_shared(const int* x, int* y, int n) {
  extern __shared__ int held[];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int k = threadIdx.x; k < n; k += blockDim.x) held[k] = x[k];
  __syncthreads();
  for (int k = threadIdx.x; k < n; k += blockDim.x) y[blockIdx.x * n + k] = held[n - 1 - k] + 1;
}
)";

TEST_F(Gpu, SharedMemoryClustersAndEarlyStarts) {
  if (device_->facts().major < 9) GTEST_SKIP() << "clusters are there from 9.0 on";
  constexpr int kInts = 50000, kBlocks = 4;
  const cuda::Code code = must(compiler_->compile({"shared", kShared, device_->target().isas.back()}));
  const auto module = must(device_->load(std::as_bytes(std::span(code.cubin))));
  const cuda::Kernel kernel = must(module->kernel("peri_shared", kInts * 4));
  const Memory x = must(device_->allocate(kInts * 4)), y = must(device_->allocate(kInts * 4 * kBlocks)),
               z = must(device_->allocate(kInts * 4 * kBlocks));
  cuda::Shape shape;
  shape.blocks[0] = kBlocks;
  shape.threads[0] = 256;
  shape.cluster[0] = 2;
  shape.shared_bytes = kInts * 4;
  shape.early = true;
  std::vector<int> in(kInts), out(size_t{kInts} * kBlocks);
  for (int k = 0; k < kInts; ++k) in[static_cast<size_t>(k)] = k;
  const auto stream = must(device_->make_stream());
  must(stream->begin_capture());
  must(stream->copy_in(x.address(), std::as_bytes(std::span(in))));
  must(stream->launch(device_->launch_of(kernel, shape, {all_of(x), all_of(y)}, {cuda::scalar(kInts)})));
  must(stream->launch(device_->launch_of(kernel, shape, {all_of(y), all_of(z)}, {cuda::scalar(kInts)})));
  must(stream->copy_out(std::as_writable_bytes(std::span(out)), z.address()));
  const auto captured = must(stream->end_capture());
  must(stream->replay(*captured));
  must(stream->synchronize());
  for (size_t k = 0; k < out.size(); ++k) ASSERT_EQ(out[k], in[k % kInts] + 2) << k;
}

TEST_F(Gpu, TheSameBitsAThousandTimes) {
  const Kernels k = must(load_kernels(*device_, *compiler_));
  constexpr size_t kFloats = 100000;
  const Memory a = must(device_->allocate(kFloats * 4)), b = must(device_->allocate(kFloats * 4));
  std::vector<float> x(kFloats), first(kFloats), again(kFloats);
  for (size_t n = 0; n < kFloats; ++n) x[n] = 1.f / static_cast<float>(n + 1);
  const auto stream = must(device_->make_stream());
  must(stream->copy_in(a.address(), bytes_of(x)));
  must(stream->begin_capture());
  must(stream->launch(k.of(k.scale, a, b, 0.3f)));
  must(stream->launch(k.of(k.add, a, b, 0.7f)));
  const auto captured = must(stream->end_capture());
  for (int round = 0; round < 1000; ++round) {
    must(stream->replay(*captured));
    must(stream->copy_out(bytes_of(round == 0 ? &first : &again), b.address()));
    must(stream->synchronize());
    if (round > 0) ASSERT_EQ(std::memcmp(first.data(), again.data(), kFloats * 4), 0) << round;
  }
}

TEST_F(Gpu, ChainsAreTimed) {
  const Kernels k = must(load_kernels(*device_, *compiler_));
  const Memory a = must(device_->allocate(4096)), b = must(device_->allocate(4096));
  const auto stream = must(device_->make_stream());
  const auto from = must(device_->make_timed_event()), to = must(device_->make_timed_event());
  must(stream->begin_capture());
  for (int n = 0; n < 100; ++n) {
    must(stream->launch(k.of(k.scale, a, b, 1)));
    must(stream->launch(k.of(k.scale, b, a, 1)));
  }
  const auto captured = must(stream->end_capture());
  double best = 1e9;
  for (int round = 0; round < 30; ++round) {
    must(stream->record(*from));
    must(stream->replay(*captured));
    must(stream->record(*to));
    must(stream->synchronize());
    best = std::min(best, must(device_->milliseconds(*from, *to)));
  }
  EXPECT_GT(best, 0);
  printf("chain of 200 launches: %.2f us a launch\n", best * 1e3 / 200);
}

TEST(GpuMachine, AKernelThatGoesAstrayEndsItsDeviceWithItsName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto astray = [] {
    const auto device = must(cuda::make_cuda_device());
    const auto compiler = must(cuda::Compiler::open(""));
    const Kernels k = must(load_kernels(*device, *compiler));
    const Memory a = must(device->allocate(4096));
    const auto stream = must(device->make_stream());
    must(stream->launch(k.of(k.scale, a, a, 1)));
    must(stream->launch(k.of(k.trap, a, a, 1)));
    const Status told = stream->synchronize();
    const std::string text = told.ok() ? "nothing" : told.error().text();
    const bool again = !told.ok() && device->allocate(4).error().text() == text && !device->synchronize().ok();
    fprintf(stderr, "%s\n", text.c_str());
    std::exit(again ? 7 : 8);
  };
  EXPECT_EXIT(astray(), testing::ExitedWithCode(7), "cuda:0 failed and cannot be used .*'peri_trap'");
}

}  // namespace
}  // namespace peri::device::tests
