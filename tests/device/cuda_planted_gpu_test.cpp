// Kernels with one fault each, for the tools of compute-sanitizer: tools/gpu/sanitized.sh runs them first, since a tool
// that finds none of them shows nothing of other kernels. Without a tool they do no harm, since they write within the
// grain of an allocation.
// label: gpu
#include "tests/device/cuda_kernels.hpp"

namespace peri::device::tests {
namespace {

constexpr const char* kFaults = R"(
extern "C" __global__ void peri_outside(const float* x, float* y) { y[blockDim.x] = x[threadIdx.x]; }
extern "C" __global__ void peri_raced(const float* x, float* y) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void peri_unset(const float* x, float* y) { y[threadIdx.x] = 1 + x[threadIdx.x]; }
extern "C" __global__ void peri_parted(const float* x, float* y) {
  if (threadIdx.x < 48) __syncthreads();
  y[threadIdx.x] = x[threadIdx.x];
}
)";

// One block of 64 threads over 64 numbers, which are set where the fault is not that they are not.
void run(const char* name, bool set) {
  const auto device = must(cuda::make_cuda_device());
  const auto compiler = must(cuda::Compiler::open(""));
  const cuda::Code code = must(compiler->compile({"kernels with a fault", kFaults, device->target().isas.back()}));
  const auto module = must(device->load(std::as_bytes(std::span(code.cubin))));
  const cuda::Kernel kernel = must(module->kernel(name));
  const Memory x = must(device->allocate(256)), y = must(device->allocate(256));
  const auto stream = must(device->make_stream());
  const std::vector<float> numbers(64, 1.0F);
  if (set) must(stream->copy_in(x.address(), std::as_bytes(std::span(numbers))));
  cuda::Shape shape;
  shape.threads[0] = 64;
  must(stream->launch(device->launch_of(kernel, shape, {all_of(x), all_of(y)}, {})));
  must(stream->synchronize());
}

TEST(Planted, memcheck) { run("peri_outside", true); }
TEST(Planted, racecheck) { run("peri_raced", true); }
TEST(Planted, initcheck) { run("peri_unset", false); }
TEST(Planted, synccheck) { run("peri_parted", true); }

}  // namespace
}  // namespace peri::device::tests
