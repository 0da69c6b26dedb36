// How the runtime runs a step without knowing its kind: an executor prepares a step once per engine, instantiates it
// for a binding of dimensions, and runs the instance on pointers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.hpp"
#include "base/thread_pool.hpp"
#include "device/device.hpp"
#include "plan/program.hpp"

namespace peri::runtime {

// Memory that an instance needs in addition to its arguments: per run, and per thread.
struct Scratch {
  size_t shared = 0, each = 0;
};

// The order in which the tasks of a step are handed out. Results must not depend on it; the judge reverses it.
struct TaskOrder {
  bool backwards = false;
  bool serial = false;  // on the calling thread, one after the other
};

// The arguments of run(). Pointers of reads and writes are in the order of the step's lists; null: omitted. A string
// buffer's pointer is a std::vector<std::string>*.
struct RunContext {
  std::span<const void* const> reads;
  std::span<void* const> writes;
  // As requested by Instance::scratch(), 64-byte aligned, contents undefined: memory shared by all threads, and that of
  // thread k at each + k * stride.
  std::byte *shared = nullptr, *each = nullptr;
  size_t stride = 0;
  ThreadPool* pool = nullptr;
  TaskOrder order = {};
  const DimBinding* binding = nullptr;

  // For steps that bind dimensions: passes the dims of write `k`; the runtime binds the names, allocates memory and
  // returns it.
  class Binder {
   public:
    virtual ~Binder() = default;
    virtual Result<void*> bind_output(size_t k, std::span<const int64_t> dims) = 0;
  };
  Binder* binder = nullptr;

  // Calls fn(task, thread) for each task in [0, tasks), in the requested order.
  template <class F>
  void run_tasks(int64_t tasks, F&& fn) const {
    const auto one = [&](int64_t at, int thread) { fn(order.backwards ? tasks - 1 - at : at, thread); };
    if (!order.serial) return pool->run(tasks, one);
    for (int64_t k = 0; k < tasks; ++k) one(k, 0);
  }
};

// The arguments of enqueue(). An argument is on the device, or, for one end of a copy, on the host (then `host` is
// set): memory that stays at its address for as long as a capture may be replayed.
struct EnqueueContext {
  struct Argument {
    device::Address address;
    std::byte* host = nullptr;
    size_t bytes = 0;
  };
  std::span<const Argument> reads, writes;
  device::Argument workspace;  // workspace_bytes() of the instance, of this lane; contents undefined
  // For an instance that may_fault(): an int32 of this step alone, 0 when a run begins. It is read when the run ends,
  // and anything but 0 is an error: Instance::fault().
  device::Argument fault;
  device::Stream* stream = nullptr;
};

// A step for one binding. Immutable after instantiation: run() and enqueue() may be called by several sessions at once.
class Instance {
 public:
  virtual ~Instance() = default;
  virtual Scratch scratch() const { return {}; }
  // For a step of the host.
  virtual Status run(const RunContext& context) const;
  // For a step of a device: enqueues work into the stream, without waiting or allocating. The work may be captured and
  // replayed, and runs during the lifetime of the instance.
  virtual size_t workspace_bytes() const { return 0; }
  // Whether its work reads argument `k` in the step's own form; false for a weight that it keeps in another form.
  virtual bool reads_argument(size_t) const { return true; }
  virtual Status enqueue(const EnqueueContext& context) const;
  // Whether its work may detect an error in the data, and the error for the word that it left.
  virtual bool may_fault() const { return false; }
  virtual Error fault(int32_t word) const;
};

// A step for one engine, any binding. instantiate() may be called concurrently.
class Prepared {
 public:
  virtual ~Prepared() = default;
  virtual Result<std::unique_ptr<Instance>> instantiate(const DimBinding& binding) = 0;
};

struct EngineOptions;
struct WeightSource;

// What an executor may use while it prepares a step.
struct PrepareContext {
  const plan::Program* program = nullptr;
  const plan::Step* step = nullptr;
  const plan::Variant* variant = nullptr;
  device::Device* device = nullptr;  // of a step that does not run on the host
  // The dimensions that an instance may depend on: instantiate() gets the sizes of these, as far as they are bound.
  std::vector<std::string> dims;
  // The weight behind read `k` as a tensor viewing the mapped file; undefined tensor if read k is not a weight.
  std::vector<Tensor> weights;
  // Blob `k` of the variant's list; REQUIRES: it has one.
  std::string_view blob(size_t k) const { return program->blobs[static_cast<size_t>(variant->blobs[k])].bytes; }
  // Set where weights are mapped from a file: reports that the pages of read `k` need not stay resident, since it was
  // packed.
  std::function<void(size_t k)> drop_weight;
  int threads = 1;                         // of the pool that will run it; must not change results
  const EngineOptions* options = nullptr;  // of the engine: passed on to the engines of a control step's bodies
  const WeightSource* source = nullptr;    // of the engine's weights, for those of bodies
};

struct Executor {
  std::string name;
  uint32_t payload_version = 1;
  Result<std::unique_ptr<Prepared>> (*prepare)(const PrepareContext& context) = nullptr;
  std::string_view device = plan::kHostDevice;  // the kind its steps run on; "": any
  // Whether this program has what a variant names, such as a kernel: called when an engine is created, so that a
  // missing one is reported before there are requests. Null: variants name nothing.
  Status (*check)(const plan::Variant& variant) = nullptr;
};
using ExecutorTable = std::span<const Executor* const>;

}  // namespace peri::runtime
