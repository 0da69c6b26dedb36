// Kernels for tests of a CUDA device, as source for NVRTC and with names that the fake driver knows, and launches of
// them.
#pragma once

#include "device/cuda/compiler.hpp"
#include "device/cuda/cuda.hpp"
#include "tests/device/devices.hpp"

namespace peri::device::tests {

// y = a * x; y += a * x; a write to an invalid address. All with the same parameters.
inline constexpr const char* kKernels = R"(
extern "C" __global__ void peri_scale(const float* x, float* y, float a, int n) {
  const int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k < n) y[k] = a * x[k];
}
extern "C" __global__ void peri_add(const float* x, float* y, float a, int n) {
  const int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k < n) y[k] += a * x[k];
}
extern "C" __global__ void peri_trap(const float* x, float* y, float a, int n) {
  *(volatile float*)64 = a;
}
)";

struct Kernels {
  cuda::CudaDevice* device = nullptr;
  std::unique_ptr<cuda::Module> module;
  cuda::Kernel scale, add, trap;

  Launch of(const cuda::Kernel& kernel, const Memory& x, const Memory& y, float a, unsigned shared_bytes = 0,
            unsigned cluster = 1) const {
    const int n = static_cast<int>(y.bytes() / sizeof(float));
    cuda::Shape shape;
    shape.shared_bytes = shared_bytes;
    shape.threads[0] = 128;
    shape.blocks[0] = static_cast<unsigned>((n + 127) / 128 + cluster - 1) / cluster * cluster;
    shape.cluster[0] = cluster;
    return device->launch_of(kernel, shape, {all_of(x), all_of(y)}, {cuda::scalar(a), cuda::scalar(n)});
  }
};

inline Result<Kernels> load_kernels(cuda::CudaDevice& device, const cuda::Compiler& compiler) {
  PERI_ASSIGN(const cuda::Code code, compiler.compile({"kernels of a test", kKernels, device.target().isas.back()}));
  Kernels out;
  out.device = &device;
  PERI_ASSIGN(out.module, device.load(std::as_bytes(std::span(code.cubin))));
  PERI_ASSIGN(out.scale, out.module->kernel("peri_scale"));
  PERI_ASSIGN(out.add, out.module->kernel("peri_add"));
  PERI_ASSIGN(out.trap, out.module->kernel("peri_trap"));
  return out;
}

// Rules that a CUDA device must obey, real or fake: one test each.
void keeps_the_order_of_streams(Kernels& k);
void waits_order_streams(Kernels& k);
void a_capture_replays(Kernels& k);
void captures_that_are_not_joined_are_refused(Kernels& k);
void a_capture_whose_stream_goes_is_over(Kernels& k);
void a_capture_is_updated(Kernels& k);
void refuses_what_is_not_there(Kernels& k);
void keeps_pinned_memory(Kernels& k);
void tells_times(Kernels& k);
void serves_many_threads(Kernels& k);
void refuses_kernels_that_do_not_fit(Kernels& k);
void shares_a_kernel_between_sizes(Kernels& k);
void launches_clusters(Kernels& k);
void a_lent_stream_that_goes_ends_its_part(Kernels& k);

struct Rule {
  const char* name;
  void (*run)(Kernels&);
};
inline constexpr Rule kRules[] = {
    {"order", keeps_the_order_of_streams},
    {"waits", waits_order_streams},
    {"capture", a_capture_replays},
    {"unjoined", captures_that_are_not_joined_are_refused},
    {"lost_stream", a_capture_whose_stream_goes_is_over},
    {"update", a_capture_is_updated},
    {"refusals", refuses_what_is_not_there},
    {"pinned", keeps_pinned_memory},
    {"times", tells_times},
    {"clusters", launches_clusters},
    {"threads", serves_many_threads},
    {"misfits", refuses_kernels_that_do_not_fit},
    {"shared", shares_a_kernel_between_sizes},
    {"lent", a_lent_stream_that_goes_ends_its_part},
};

}  // namespace peri::device::tests
