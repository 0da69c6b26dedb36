// An NVIDIA GPU as a device: the rules of device.hpp over the driver's streams, events and graphs, and what only such a
// device has: loaded kernels, and graphs that are updated in place.
#pragma once

#include <algorithm>
#include <array>

#include "device/cuda/driver.hpp"
#include "device/device.hpp"

namespace peri::device::cuda {

using device::Pinned;  // from a pool that keeps released blocks: sizes are rounded up to powers of two

// A kernel of a module, with its properties from the driver.
struct Kernel {
  std::string name;
  CuKernel handle = nullptr;
  int registers = 0, local_bytes = 0, shared_bytes = 0, max_threads = 0;
};

// Loaded code. Its kernels live as long as it does; when it is destroyed, no work with them may be enqueued or
// captured. Thread-safe.
class Module {
 public:
  virtual ~Module() = default;
  // `dynamic_bytes`: the largest dynamic shared memory of a launch. Errors: kInvalid where there is no such kernel, or
  // it needs more shared memory than a block may have.
  virtual Result<Kernel> kernel(const std::string& name, int dynamic_bytes = 0) = 0;
};

// A scalar parameter, up to 8 bytes.
struct Scalar {
  alignas(8) std::array<std::byte, 8> bytes = {};
};
template <class T>
Scalar scalar(T value) {
  static_assert(sizeof(T) <= sizeof(Scalar::bytes));
  Scalar out;
  std::copy_n(reinterpret_cast<const std::byte*>(&value), sizeof(T), out.bytes.begin());
  return out;
}

// How a kernel is launched.
struct Shape {
  std::array<unsigned, 3> blocks = {1, 1, 1}, threads = {1, 1, 1}, cluster = {1, 1, 1};
  unsigned shared_bytes = 0;  // dynamic
  bool early = false;  // may start before its predecessor ended: the kernel itself waits for that (griddepcontrol)
};

class CudaDevice : public Device {
 public:
  virtual const GpuFacts& facts() const = 0;
  virtual const Driver& driver() const = 0;
  // Cubin or PTX. Errors: kUnsupported where the code is for another chip.
  virtual Result<std::unique_ptr<Module>> load(std::span<const std::byte> code) = 0;
  // The launch of a kernel whose parameters are the addresses of the arguments, in order, then the scalars; or as in
  // `order`, if it is not empty: k >= 0 is address k, else it is scalar -1 - k.
  virtual Launch launch_of(const Kernel& kernel, const Shape& shape, std::vector<Argument> arguments,
                           std::vector<Scalar> scalars = {}, std::vector<int> order = {}) = 0;
  // Calls the function with this device's context current on the calling thread, as libraries require.
  virtual Status within(const std::function<Status()>& function) = 0;
  // Keeps it until this device is destroyed: objects that are expensive to open again. Thread-safe.
  virtual void keep(std::shared_ptr<const void> what) = 0;
  // Makes `kept` replay the work in `newer`. True: updated in place (the same work with other addresses or sizes);
  // false: its graph was created again, because the work differs. A replay of `kept` in progress is unaffected. One
  // thread at a time for each.
  virtual Result<bool> update(Captured& kept, const Captured& newer) = 0;
};

struct CudaOptions {
  int ordinal = 0;
  std::vector<std::string> libraries = {};  // of the target
};
// The target of a GPU: threads are its multiprocessors, isas its chip ("sm_90", "sm_90a"), caches L2 and the memories.
Target target_of(const GpuFacts& facts, const Driver& driver, std::vector<std::string> libraries);

// kUsage, naming the existing ones, where `ordinal` is not below `count`.
Status check_ordinal(int ordinal, size_t count);

// Opens the GPU with its primary context, which it shares with all libraries of the process, and keeps it until it is
// destroyed. Thread-safe; a call restores the thread's current context. Errors: those of open_driver(); kUsage where
// there is no GPU of that number; kUnsupported where it has no memory pools.
Result<std::unique_ptr<CudaDevice>> make_cuda_device(CudaOptions options = {});

}  // namespace peri::device::cuda
