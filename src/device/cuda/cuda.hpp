// An NVIDIA GPU as a device: the rules of device.hpp over the driver's streams, events and graphs, and what only such a
// device has: loaded kernels, and graphs that are updated in place.
#pragma once

#include <algorithm>
#include <array>

#include "device/cuda/driver.hpp"
#include "device/device.hpp"

namespace peri::device::cuda {

using device::Pinned;  // from a pool that keeps what comes back: sizes are rounded up to powers of two

// A kernel of a module, with what the driver says of it.
struct Kernel {
  std::string name;
  CuKernel handle = nullptr;
  int registers = 0, local_bytes = 0, shared_bytes = 0, max_threads = 0;
};

// Loaded code. Its kernels live as long as it does; no work with them may be enqueued, and no capture hold them, when
// it goes. Any thread.
class Module {
 public:
  virtual ~Module() = default;
  // `dynamic_bytes`: the most dynamic shared memory that a launch will ask for. Errors: kInvalid where there is no such
  // kernel, or more shared memory is wanted than a block may have.
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
  bool early = false;  // may begin before its predecessor ended: the kernel waits for that itself (griddepcontrol)
};

class CudaDevice : public Device {
 public:
  virtual const GpuFacts& facts() const = 0;
  virtual const Driver& driver() const = 0;
  // Cubin or PTX. Errors: kUnsupported where the code is of another chip.
  virtual Result<std::unique_ptr<Module>> load(std::span<const std::byte> code) = 0;
  // The launch of a kernel whose parameters are the addresses of the arguments, in order, then the scalars; or as
  // `order` says, where it is not empty: k >= 0 is address k, else it is scalar -1 - k.
  virtual Launch launch_of(const Kernel& kernel, const Shape& shape, std::vector<Argument> arguments,
                           std::vector<Scalar> scalars = {}, std::vector<int> order = {}) = 0;
  // Calls the function with this device's context current on the calling thread, as libraries want it.
  virtual Status within(const std::function<Status()>& function) = 0;
  // Holds it until this device goes: what is expensive to open again. Any thread.
  virtual void keep(std::shared_ptr<const void> what) = 0;
  // Makes `kept` replay what `newer` holds. True: in place (the same work with other addresses or sizes); false: its
  // graph was made anew, because the work differs. A replay of `kept` under way keeps what it was. One thread at a time
  // for each.
  virtual Result<bool> update(Captured& kept, const Captured& newer) = 0;
};

struct CudaOptions {
  int ordinal = 0;
  std::vector<std::string> libraries = {};  // of the target
};
// The target of a GPU: threads are its multiprocessors, isas its chip ("sm_90", "sm_90a"), caches L2 and the memories.
Target target_of(const GpuFacts& facts, const Driver& driver, std::vector<std::string> libraries);

// kUsage, naming those that there are, where `ordinal` is none of `count` GPUs.
Status check_ordinal(int ordinal, size_t count);

// Opens the GPU with its primary context, which it shares with all libraries of the process, and keeps it until it
// goes. Any thread may call; a call leaves the thread's current context as it was. Errors: those of open_driver();
// kUsage where there is no GPU of that number; kUnsupported where it has no memory pools.
Result<std::unique_ptr<CudaDevice>> make_cuda_device(CudaOptions options = {});

}  // namespace peri::device::cuda
