// The driver as a table of functions, its errors as ours, and the properties of its GPUs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "device/cuda/abi.hpp"
#include "device/cuda/library.hpp"

namespace peri::device::cuda {

struct Driver {
// A declaration has no parentheses: NOLINTNEXTLINE(bugprone-macro-parentheses)
#define PERI_DRIVER(member, symbol, parameters) CuResult(*member) parameters = nullptr;
#include "device/cuda/driver.def"
#undef PERI_DRIVER
  Version version;  // of CUDA, as supported by the driver
  std::string path;
};

// Opened, all functions found, initialised. Thread-safe. Errors: those of open_library(); kUnsupported where the driver
// fails to initialise or has no GPU that this process may use.
Result<std::shared_ptr<const Driver>> open_driver();

// "ILLEGAL_ADDRESS (700): an illegal memory access was encountered".
std::string code_text(const Driver& driver, CuResult code);
// After such a code the process can use no GPU any more: all calls return the same code (see cuda.h).
bool is_sticky(CuResult code);
// The kind of our error for a code other than 0.
ErrorKind kind_of(CuResult code);

// Whether a device of this process still works. A sticky error is stored with the work that ran before it, and is
// returned by everything from then on. Thread-safe.
class Health {
 public:
  static constexpr size_t kSuspects = 8;
  Health(std::shared_ptr<const Driver> driver, std::string device)
      : driver_(std::move(driver)), device_(std::move(device)) {}
  // The error for a code other than 0, `call` as its node.
  Status check(CuResult code, std::string_view call);
  // kIo once a sticky error was seen.
  Status alive() const;
  // Records the work that a later sticky error may come from: the last few names.
  void enqueued(const std::string& name);
  void finished();  // all of it ran

 private:
  const std::shared_ptr<const Driver> driver_;
  const std::string device_;
  mutable std::mutex lock_;
  std::vector<std::string> suspects_;
  std::optional<Error> failure_;
};

// A GPU as the driver describes it, without a context on it. Clocks are the highest.
struct GpuFacts {
  int ordinal = 0;
  std::string name, pci;  // "NVIDIA H200", "0000:4e:00.0"
  int major = 0, minor = 0, multiprocessors = 0;
  int64_t memory_bytes = 0, l2_bytes = 0, shared_bytes = 0;  // shared_bytes: limit per block
  int clock_khz = 0, memory_clock_khz = 0, bus_bits = 0;
  bool pools = false;
  std::string chip() const { return "sm_" + std::to_string(10 * major + minor); }
  // With the features of the chip that no later chip has: "sm_90a"; the same as chip() before 9.0.
  std::string chip_specific() const { return major >= 9 ? chip() + "a" : chip(); }
};
Result<std::vector<GpuFacts>> list_gpus(const Driver& driver);

}  // namespace peri::device::cuda
