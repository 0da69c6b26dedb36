// The current state of a GPU, for reports and measurements, from NVML where it is installed.
#pragma once

#include <memory>
#include <optional>

#include "device/cuda/library.hpp"

namespace peri::device::cuda {

// Values that NVML does not provide are none.
struct GpuState {
  std::optional<unsigned> sm_mhz, memory_mhz, milliwatts, limit_milliwatts, celsius;
  std::optional<uint64_t> slowed_by;  // bits of nvmlClocksEventReasons (nvml.h); 1: idle, 4: power cap
};

class Nvml {
 public:
  // Initialises the library, which is shut down when this object is destroyed. Errors: those of open_library(),
  // kUnsupported.
  static Result<std::unique_ptr<Nvml>> open();
  ~Nvml();
  // By the PCI address in the driver's notation, since NVML counts GPUs in another order. Calls take up to
  // milliseconds; one thread at a time.
  Result<GpuState> state(const std::string& pci) const;

 private:
  struct Table;
  explicit Nvml(std::unique_ptr<Table> table);
  std::unique_ptr<Table> table_;
};

}  // namespace peri::device::cuda
