// Engine: a program with its weights and executors, immutable and shared by sessions. Session: one run at a time, with
// its arena, its thread pool and the instances for its current shapes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/file.hpp"
#include "runtime/executor.hpp"

namespace peri::plan {
struct ProgramSizes;
}

namespace peri::runtime {

class BodyTimes;
class StepShare;

// The bytes of the weight section. `keep` owns them; `drop_pages`, if set, may be called when a range has been packed
// and its pages need not stay resident.
struct WeightSource {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep;
  std::function<void(uint64_t offset, uint64_t bytes)> drop_pages;
  // Instead of `bytes`, where weights are not contiguous: one for each of Program::weights, whose offsets are then
  // ignored.
  std::vector<Tensor> tensors = {};
  // plan::check_program() accepted this program with these bytes, as when an engine file is read.
  bool checked = false;
};

// The allocator of memory for runs: arenas, scratch, states, and outputs for which the caller provides no memory. Null
// functions: the system's. Called from the threads that run sessions; must outlive engine, sessions and outputs.
struct Allocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;  // null: out of memory
  void (*release)(void* user, void* memory, size_t bytes) = nullptr;
  void* user = nullptr;
};

// Weights in a mapped file; `bytes` is a part of it.
WeightSource mapped_weights(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> file);

struct EngineOptions {
  ExecutorTable executors;
  plan::Capabilities machine;
  int threads = 1;
  Allocator allocator = {};
  // Limit in bytes of one block of memory (arena, scratch, state, data-dependent buffer); 0: the machine's memory.
  int64_t memory_bytes = 0;
  // Devices that programs may name, by their kind: the part before the colon in Device::name(). Others are opened by
  // name (device::open_device), once per engine.
  std::vector<std::shared_ptr<device::Device>> devices = {};
  std::string device = {};  // "cuda:1": which one is opened where a program names its kind; empty: the first
  // Number of steps that all sessions and bodies together may still run, for untrusted programs; null: unlimited.
  std::shared_ptr<std::atomic<int64_t>> steps_left = nullptr;
  // Limit of one loop in one run; 0: the program's (plan/iterations.hpp), else plan::kMaxIterations.
  int64_t max_iterations = 0;
  bool choosing = false;  // executors may refuse what is correct but slow: the engine is only for choosing candidates
  // Receives the runs and times of the steps of bodies; null: nobody asks, and no clock is read.
  std::shared_ptr<BodyTimes> body_times = nullptr;
  // Made by Engine::create(), for the engine and those of its control steps' bodies; null for everybody else.
  std::shared_ptr<StepShare> share = nullptr;

  int64_t memory_limit() const;
};

class Engine {
 public:
  // Checks the program unless that is done, finds an executor for every step (all missing ones are named at once), and
  // a variant whose requirements this machine meets, also in bodies. Errors: kInvalid (invalid program), kRefused
  // (missing executor, kernel or device, no variant), those of devices.
  static Result<std::shared_ptr<const Engine>> create(plan::Program program, WeightSource weights,
                                                      EngineOptions options);
  ~Engine();

  const plan::Program& program() const;
  const EngineOptions& options() const;
  Result<Tensor> weight(size_t index) const;
  const plan::ProgramSizes& sizes() const;  // of the program, compiled
  // The instance of step `k` for values in the order of sizes(): from a cache of recent ones, or made now. Thread-safe:
  // no lock is held while one is made, so that first calls for different keys do not wait for each other; for several
  // calls with the same key one is made. An error is returned to all that wait for it and is not cached.
  Result<std::shared_ptr<const Instance>> instance(size_t step, std::span<const int64_t> values) const;
  // A device of the program's table; null: the host.
  device::Device* device(uint32_t index) const;
  // Uploads the weights that these instances of the steps read on a device (null: made later, and assumed to read all),
  // once per engine. Thread-safe.
  Status bring_weights(std::span<const std::shared_ptr<const Instance>> instances) const;
  // Bytes that this would upload now, by device.
  Result<std::vector<int64_t>> weights_to_bring(std::span<const std::shared_ptr<const Instance>> instances) const;
  // The address of a weight buffer on a device; none: not uploaded.
  device::Address device_weight(size_t buffer) const;
  int64_t instances_made() const;  // so far, by all sessions
  uint64_t id() const;             // of this engine object, for caches

 private:
  Engine();
  struct State;
  std::unique_ptr<State> state_;
};

// Memory of the caller: an input or an output.
struct View {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;
  void* data = nullptr;
};

// The caller's memory for an input or output on a device.
struct PortMemory {
  device::Address address;  // on that device; no address: see below
  std::span<std::byte>
      host;  // copied from or to, an input is only read; empty, and no address: the session's own memory
};

// A run on memory of a device.
struct ResidentRun {
  std::vector<PortMemory> inputs = {}, outputs = {};  // by port; empty: all in the session's own memory
  // The caller's stream on that device: the run begins after the work in it, and later work in it follows the run.
  device::Stream* stream = nullptr;
  // False: returns when everything is enqueued, unless a step of the host must wait for a device. finish() returns its
  // errors.
  bool wait = true;
};
// How the caller's memory on a device was used.
enum class PortUse : uint8_t { kOwn, kInPlace, kCopied };

// A step of a device as the session enqueues it at its current shape, for timing: its work may be enqueued, captured
// and replayed any number of times, in this stream, while the session is at that shape.
struct DeviceStep {
  std::shared_ptr<const Instance> instance;
  std::vector<EnqueueContext::Argument> reads, writes;
  device::Argument workspace, fault;
  device::Device* device = nullptr;
  device::Stream* stream = nullptr;
  Status enqueue() const { return instance->enqueue({reads, writes, workspace, fault, stream}); }
};

// Called before and after each step when set: step index, true before / false after.
using StepHook = std::function<void(size_t step, bool before)>;

class Session {
 public:
  // A served model sees a few batch sizes by a few padded lengths; a kept shape costs the plan and the instances of its
  // steps, tens of kilobytes for a hundred steps.
  static constexpr size_t kKeptShapes = 8;
  // `threads` 0: the engine's.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Engine> engine, int threads = 0);
  // A session for the body of a control step: it has no pool of its own (see use_pool()) and takes dimensions of 0.
  static Result<std::unique_ptr<Session>> create_body(std::shared_ptr<const Engine> engine);
  // Uses this pool from now on. REQUIRES: a body's session; the pool outlives the next run().
  void use_pool(ThreadPool* pool);
  ~Session();

  // Runs on host tensors, in order of Program::inputs; returns new tensors in order of Program::outputs. Errors name
  // the input. Blocks until done.
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs);
  // Like run(), into the caller's output memory where given (dtype, dims and size are checked). Data-dependent outputs
  // must be left to the session (data null).
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, std::span<const View> outputs);
  // A run for those who run again and again: between runs at the same sizes it allocates nothing for outputs that the
  // caller provides, if no size depends on data and the steps do not. Inputs are the caller's memory too, that of a
  // string input a std::vector<std::string>. (*others)[k] becomes output k where there is no memory given for it.
  Status run_views(std::span<const View> inputs, std::span<const View> outputs, std::vector<Tensor>* others);

  // Makes instances and memory for these input dims now, and captures the segments of devices, so that the next run()
  // with them does not. A session keeps its last kKeptShapes: returning to one plans, allocates, makes and captures
  // nothing. They share one arena, of the size of the largest.
  Status prepare(const std::vector<std::vector<int64_t>>& input_dims);

  // The device of all inputs and outputs; null: one of them is on the host.
  device::Device* resident_device() const;
  // Memory of the session for a port on a device, for the shape of the last prepare() or run(): the same for all runs
  // until a larger shape is prepared. An input may be written there, by work in stream() or work that is complete; an
  // output is valid until the next run.
  Result<device::Argument> input_memory(size_t port) const;
  Result<device::Argument> output_memory(size_t port) const;
  // A run of the shape of the last prepare(). The caller's memory is used in place from the second run on with the same
  // addresses, if its alignment allows it, nothing overlaps and no size depends on data; else it is copied. Errors:
  // kUsage (no shape, counts, sizes), kUnsupported (ports on the host, named), those of the device.
  Status run_resident(const ResidentRun& run);
  // Waits for the work enqueued by run_resident(). Returns the first error of these runs, including an input's.
  Status finish();
  PortUse port_use() const;        // in the last run_resident()
  device::Stream* stream() const;  // runs begin and end in it, on resident_device(); null: there is none
  const char* why_copied() const;  // where port_use() is kCopied

  // Called before each step of a run, and of the bodies of its control steps: once it returns true the run ends with
  // kCancelled.
  void stop_when(std::function<bool()> stop);
  void set_step_hook(StepHook hook);
  // The contents of a buffer in the step hook, or after the last run: in its layout, a blocked axis as one row of all
  // its bytes. After a run only buffers in separate memory are intact; outputs were moved to the caller.
  Result<Tensor> buffer_contents(int32_t buffer) const;
  // From the next prepare() on. kSeparate: every buffer has separate memory, including results that share the memory of
  // an argument. kGuarded: every buffer that does not share an argument's. In both all buffers and scratch are
  // surrounded by guard bytes, NaN in every float type: a write outside results and scratch ends the run with an error
  // of kind kInternal that names the step. For judging: costs memory and time.
  enum class Placement { kPlanned, kSeparate, kGuarded };
  void place(Placement placement);
  // The order of the tasks of every step from now on.
  void order(TaskOrder order);
  // Runs one step again on the memory contents of the last run, without hook and guards: for timing. REQUIRES: that run
  // did not fail, and no dimension depends on data.
  Status repeat(size_t step);
  // A step that does not run on the host. REQUIRES: prepared, and no dimension depends on data.
  Result<DeviceStep> device_step(size_t step);
  // The memory of a buffer after the last run.
  Result<std::span<std::byte>> memory_of(int32_t buffer);
  // Fills the memory of scratch and kept buffers with 0xff, NaN in every float type, to expose reads of uninitialised
  // memory. Between prepare() and run().
  void poison();
  // The same for the results of one step that share no argument's memory, and its scratch; in a hook before the step.
  void poison_results(size_t step);
  int64_t arena_bytes() const;
  int64_t captures() const;      // segments captured so far; those of a kept shape are replayed
  int64_t shapes_bound() const;  // number of planned bindings; a return to a kept one is not counted
  // Dimensions bound by the inputs of the last run or prepare(), and during a run by its steps so far.
  const DimBinding& binding() const;
  const Engine& engine() const;

 private:
  Session();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace peri::runtime
