// The backend's value, and the machine as one target: the host's CPU with its GPU.
#include "backends/cuda/backend.hpp"

#include "device/cuda/cuda.hpp"
#include "device/open.hpp"

namespace peri::backends::cuda {

namespace {
// Kernels of the CPU find its instruction sets among the target's, those of the GPU its chip.
Result<device::Target> target(int threads, std::vector<std::string> libraries, const std::string& device) {
  PERI_ASSIGN(const int ordinal, device::ordinal_of(device));
  PERI_ASSIGN(const auto driver, device::cuda::open_driver());
  PERI_ASSIGN(const std::vector<device::cuda::GpuFacts> gpus, device::cuda::list_gpus(*driver));
  if (gpus.empty()) return unsupported("there is no GPU of NVIDIA's here");
  if (static_cast<size_t>(ordinal) >= gpus.size())
    return usage("there is no cuda:%d", ordinal)
        .expecting(gpus.size() == 1 ? "cuda:0" : format("cuda:0 to cuda:%zu", gpus.size() - 1));
  PERI_ASSIGN(const device::cuda::Library nvrtc, device::cuda::open_library(device::cuda::Vendor::kNvrtc));
  const device::Target gpu = device::cuda::target_of(gpus[static_cast<size_t>(ordinal)], *driver, {});
  device::Target out = device::with_gpu(device::cpu_target(threads, std::move(libraries)), gpu);
  // What times and choices hold for: the chip, its multiprocessors, the driver, the compiler.
  out.chip += format(" with %s (%d multiprocessors)", gpu.chip.c_str(), gpu.multiprocessors);
  out.libraries.push_back("nvrtc " + nvrtc.version().text());
  if (const auto blas = device::cuda::open_library(device::cuda::Vendor::kCublasLt); blas.ok())
    out.libraries.push_back("cublaslt " + blas->version().text());
  if (const auto dnn = device::cuda::open_library(device::cuda::Vendor::kCudnn); dnn.ok())
    out.libraries.push_back("cudnn " + dnn->version().text());
  return out;
}
}  // namespace

const lower::Backend& backend() {
  static const lower::Backend kBackend = {
      .name = "cuda",
      .executors = {"cuda", "cpu"},
      .change_ms = [](tune::Tuner& tuner, DType dtype, const std::vector<int64_t>& dims, const ir::Layout& from,
                      const ir::Layout& to) { return tuner.convert_ms(dtype, dims, from, to); },
      .cross_ms = [](tune::Tuner& tuner, double bytes) { return tuner.crossing_ms("cuda", bytes); },
      .placement = {.device = "cuda", .executor = "cuda", .lanes = 1, .own_only = true, .ports = true},
      .target = target,
      .narrow_values = true,
  };
  return kBackend;
}

}  // namespace peri::backends::cuda
