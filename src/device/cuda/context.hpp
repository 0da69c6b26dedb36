// The shared state of a CUDA device: the driver, the context, its health, its counts and its allocations.
#pragma once

#include <algorithm>
#include <map>

#include "device/cuda/cuda.hpp"

namespace peri::device::cuda {

class Context {
 public:
  Context(std::shared_ptr<const Driver> d, GpuFacts f)
      : driver(std::move(d)), facts(std::move(f)), health(driver, "cuda:" + std::to_string(facts.ordinal)) {}
  Context(const Context&) = delete;
  ~Context() {
    if (context) driver->release(device);
  }

  const std::shared_ptr<const Driver> driver;
  const GpuFacts facts;
  Health health;
  CuDevice device = 0;
  CuContext context = nullptr;

  // Counts a call that may fail; returns the error of a device that failed.
  Status call() {
    {
      const std::lock_guard<std::mutex> lock(lock_);
      ++counts_.calls;
    }
    return health.alive();
  }
  // Calls the driver with this context current. `name`: the function's name in cuda.h.
  template <class F>
  Status drive(const char* name, F function) {
    CuContext before = nullptr;
    PERI_TRY(health.check(driver->current(&before), "cuCtxGetCurrent"));
    if (before == context) return health.check(function(*driver), name);
    PERI_TRY(health.check(driver->push(context), "cuCtxPushCurrent"));
    const CuResult code = function(*driver);
    CuContext popped = nullptr;
    driver->pop(&popped);
    return health.check(code, name);
  }
  // Calls the function with this context current.
  Status within(const std::function<Status()>& function) {
    PERI_TRY(call());
    CuContext before = nullptr;
    PERI_TRY(health.check(driver->current(&before), "cuCtxGetCurrent"));
    if (before == context) return function();
    PERI_TRY(health.check(driver->push(context), "cuCtxPushCurrent"));
    Status done = function();
    driver->pop(&before);
    return done;
  }
  // Calls the driver also after a failure, to release something, with this context current if that is still possible.
  template <class F>
  CuResult dispose(F function) {
    CuContext before = nullptr;
    const bool pushed =
        (driver->current(&before) != kCuSuccess || before != context) && driver->push(context) == kCuSuccess;
    const CuResult code = function(*driver);
    if (pushed) driver->pop(&before);
    return code;
  }

  Counts counts() const {
    const std::lock_guard<std::mutex> lock(lock_);
    return counts_;
  }
  void add_work(int64_t copies, int64_t launches, int64_t replays) {
    const std::lock_guard<std::mutex> lock(lock_);
    counts_.copies += copies;
    counts_.launches += launches;
    counts_.replays += replays;
  }
  void add_memory(Address at, size_t bytes) {
    const std::lock_guard<std::mutex> lock(lock_);
    blocks_[at.value] = bytes;
    ++counts_.allocations;
    ++counts_.live;
    counts_.live_bytes += static_cast<int64_t>(bytes);
    counts_.most_bytes = std::max(counts_.most_bytes, counts_.live_bytes);
  }
  // Registers memory of others, which is not counted. False: the range is in memory of this device.
  bool add_lent(Address at, size_t bytes) {
    const std::lock_guard<std::mutex> lock(lock_);
    if (within(blocks_, at, bytes)) return false;
    lent_.emplace(at.value, bytes);
    return true;
  }
  // False: it is memory of this device.
  bool remove_lent(Address at) {
    const std::lock_guard<std::mutex> lock(lock_);
    const auto it = lent_.find(at.value);
    if (it == lent_.end()) return false;
    lent_.erase(it);
    return true;
  }
  void remove_memory(Address at) {
    const std::lock_guard<std::mutex> lock(lock_);
    counts_.live_bytes -= static_cast<int64_t>(blocks_.extract(at.value).mapped());
    --counts_.live;
  }
  void add_stream(Stream* stream) {
    const std::lock_guard<std::mutex> lock(streams_lock_);
    streams_.push_back(stream);
  }
  void remove_stream(Stream* stream) {
    const std::lock_guard<std::mutex> lock(streams_lock_);
    std::erase(streams_, stream);
  }
  // Calls the function for each stream; none is created or destroyed meanwhile. Returns the first error.
  template <class F>
  Status each_stream(F function) {
    const std::lock_guard<std::mutex> lock(streams_lock_);
    Status first = Ok{};
    for (Stream* const s : streams_)
      if (Status done = function(*s); !done.ok() && first.ok()) first = std::move(done);
    return first;
  }
  // kInvalid unless the range lies within one live allocation.
  Status check_range(Address at, size_t bytes) const {
    const std::lock_guard<std::mutex> lock(lock_);
    if (within(blocks_, at, bytes)) return Ok{};
    for (const auto& [begin, size] : lent_)  // a few: ports of runs
      if (at.value >= begin && at.value - begin <= size && bytes <= size - (at.value - begin)) return Ok{};
    auto after = blocks_.upper_bound(at.value);
    if (after == blocks_.begin()) return invalid("no memory of the device is there");
    const auto& [begin, size] = *--after;
    return invalid("%zu bytes at offset %llu of an allocation of %zu", bytes,
                   static_cast<unsigned long long>(at.value - begin), size);
  }

 private:
  static bool within(const std::map<uint64_t, size_t>& blocks, Address at, size_t bytes) {
    auto after = blocks.upper_bound(at.value);
    if (after == blocks.begin()) return false;
    const auto& [begin, size] = *--after;
    const uint64_t offset = at.value - begin;
    return offset <= size && bytes <= size - offset;
  }

  mutable std::mutex lock_;
  Counts counts_;
  std::map<uint64_t, size_t> blocks_;
  std::multimap<uint64_t, size_t> lent_;
  std::mutex streams_lock_;
  std::vector<Stream*> streams_;
};

// A stream of the driver's; made and destroyed in the context.
Result<std::unique_ptr<Stream>> make_cuda_stream(const Device* owner, std::shared_ptr<Context> context);
// A stream of the caller, which is neither synchronized nor destroyed by the result's destructor.
std::unique_ptr<Stream> lend_cuda_stream(const Device* owner, std::shared_ptr<Context> context, void* queue);
Result<std::unique_ptr<Event>> make_cuda_event(const Device* owner, std::shared_ptr<Context> context, bool timed);
Result<double> milliseconds_between(Context& context, const Event& from, const Event& to);
// Waits for all streams except those in a capture; thread-safe.
Status wait_for_streams(Context& context);
Result<bool> update_captured(Context& context, Captured& kept, const Captured& newer);
Result<std::unique_ptr<Module>> load_module(std::shared_ptr<Context> context, std::span<const std::byte> code);
// The parameters of a launch other than addresses: see CudaDevice::launch_of().
struct Parameters {
  std::vector<Scalar> scalars;
  std::vector<int> order;
};
Launch kernel_launch(std::shared_ptr<Context> context, const Kernel& kernel, const Shape& shape,
                     std::vector<Argument> arguments, Parameters parameters);

}  // namespace peri::device::cuda
