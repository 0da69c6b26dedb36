// What a session keeps between and during its runs; parts of it are defined in several files.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/sizes.hpp"
#include "runtime/engine.hpp"
#include "runtime/guard.hpp"
#include "runtime/memory.hpp"
#include "runtime/session_device.hpp"

namespace peri::runtime {

// Bytes of an arena with separate placement that nothing may write: [begin, end).
struct Guard {
  int64_t begin = 0, end = 0;
  uint32_t device = plan::kHost;
};

// A shape on the caller's memory: what was captured for it.
struct PortSet {
  std::vector<device::Address> given;      // inputs, then outputs; 0: the session's own memory
  std::vector<device::Memory> lent;        // their sizes
  std::vector<device::Address> addresses;  // per buffer; empty: seen once, and copied
  std::vector<std::unique_ptr<device::Captured>> captured;
};

// Everything that depends on the input dims alone. Pointers refer to the session's memory at the time of their
// placement.
struct BoundShape {
  std::vector<std::vector<int64_t>> input_dims;
  Session::Placement how = Session::Placement::kPlanned;
  std::vector<int64_t> values;  // of the engine's sizes
  DimBinding binding;           // the same by name
  plan::ArenaPlan arena_plan;
  plan::Workspaces work;                                   // of the instances below, in the arenas of their devices
  std::vector<size_t> work_guard;                          // per step, with separate placement: as guard_of
  std::vector<std::shared_ptr<const Instance>> instances;  // null: instantiated while running (data-dependent)
  size_t scratch_bytes = 0;
  int scratch_threads = 0;      // for which scratch_bytes is computed
  uint64_t placed = 0;          // the state of memory that the pointers refer to
  std::vector<void*> pointers;  // per buffer
  std::vector<std::vector<const void*>> reads;
  std::vector<std::vector<void*>> writes;
  std::vector<int64_t> shift;    // per buffer: bytes from the start of what it aliases
  std::vector<bool> taking;      // per buffer, with separate placement: a result that shares an argument's memory
  std::vector<Guard> guards;     // ascending in each device, one device after the other
  std::vector<size_t> guard_of;  // per buffer: index of the one after it; 0: none
  std::vector<std::pair<size_t, std::vector<int64_t>>> state_dims;  // buffers of states, with their dims
  // For programs with devices other than the host.
  std::vector<device::Address> addresses;                   // per buffer
  std::vector<std::unique_ptr<device::Captured>> captured;  // per segment; null: not yet, or memory has moved since
  std::vector<std::unique_ptr<PortSet>> elsewhere;          // most recently used first
};

// The memory of a state in the layout of its last shape.
struct StateMemory {
  Memory memory;
  device::Memory away;  // for a state on a device
  std::vector<int64_t> dims;
  bool used = false;
};

// Offsets of a step's scratch in the session's. Guards separate and surround the parts.
struct ScratchPlaces {
  Scratch need;
  size_t shared = 0, each = 0, stride = 0, bytes = 0;
  int threads = 0;
};

// An input of a run, where the caller has it.
struct GivenInput {
  DType dtype = DType::kInvalid;
  const std::vector<int64_t>* dims = nullptr;
  const void* data = nullptr;
  size_t bytes = 0;
};

struct Session::State final : RunContext::Binder {
  std::shared_ptr<const Engine> engine;
  std::unique_ptr<ThreadPool> own_pool;
  ThreadPool* pool = nullptr;
  StepHook hook;
  std::function<bool()> stop;
  Placement how = Placement::kPlanned;
  TaskOrder order;
  bool data_dependent = false;

  std::vector<std::unique_ptr<BoundShape>> kept;  // most recently used first
  BoundShape* now = nullptr;                      // of kept; null: nothing is prepared
  int64_t shapes_bound = 0;

  // Shared by all kept shapes; they only grow. `placement` counts reallocations of any of them.
  Memory arena, scratch;
  std::vector<StateMemory> states;                                 // per buffer: kState, zero at first
  std::vector<std::unique_ptr<std::vector<std::string>>> strings;  // per buffer
  std::vector<Tensor> weights;                                     // per buffer, defined for weights
  DeviceRun devices;                                               // empty if the program has only the host
  uint64_t placement = 1;

  // For the current run.
  std::vector<GivenInput> given_inputs;
  std::vector<bool> direct;         // per output: it is written where it is to be
  DimBinding run_binding;           // including what steps have bound so far
  std::vector<int64_t> run_values;  // the same as values of the sizes
  std::vector<Memory> pooled;       // per buffer: data-dependent ones
  // Per output of at least kLargeOutput bytes: its memory, reused by the next run if it is free by then.
  static constexpr int64_t kLargeOutput = int64_t{4} << 20;
  std::vector<std::shared_ptr<Memory>> large_outputs;
  std::shared_ptr<Memory> large_output(size_t port);
  size_t current = 0;
  std::vector<PortMemory> inputs_at, outputs_at;  // of ports on devices; no address and no host: not copied
  bool waits = true;                              // the run is waited for
  PortUse port_use = PortUse::kOwn;
  const char* why_copied = "";

  const plan::Program& program() const { return engine->program(); }
  const plan::ProgramSizes& sizes() const { return engine->sizes(); }
  const EngineOptions& options() const { return engine->options(); }
  const std::vector<int64_t>& values() const { return data_dependent ? run_values : now->values; }

  template <class Dims>  // size_t -> const std::vector<int64_t>&, of one input
  bool is_for(const BoundShape& s, size_t inputs, const Dims& dims) const {
    if (s.how != how || s.input_dims.size() != inputs) return false;
    for (size_t k = 0; k < inputs; ++k)
      if (s.input_dims[k] != dims(k)) return false;
    return true;
  }
  // Makes a kept shape the current one; false: there is none for these dims.
  template <class Dims>
  Result<bool> return_to(size_t inputs, const Dims& dims) {
    for (size_t k = 0; k < kept.size(); ++k) {
      if (!is_for(*kept[k], inputs, dims)) continue;
      std::rotate(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(k),
                  kept.begin() + static_cast<std::ptrdiff_t>(k) + 1);
      PERI_TRY(enter(kept.front().get()));
      return true;
    }
    return false;
  }
  Status prepare_for(const std::vector<std::vector<int64_t>>& dims);
  Status enter(BoundShape* s);
  Status plan_memory(BoundShape* s) const;
  Status plan_places(BoundShape* s) const;
  Status plan_workspaces(BoundShape* s) const;
  Status separate_memory(BoundShape* s) const;
  Result<int64_t> separate_arena(uint32_t device, BoundShape* s) const;
  Status make_instances(BoundShape* s) const;
  Status hold(Memory* memory, size_t bytes);
  Status hold_states(const BoundShape& s);
  Result<device::Memory> new_state(size_t buffer, const BoundShape& s, bool grows, const std::vector<int64_t>& dims);
  void place_buffers(BoundShape* s) const;
  bool guards() const { return how != Placement::kPlanned; }
  Status fill_guards();
  Result<std::span<const std::byte>> guard_bytes(size_t guard, std::vector<std::byte>* read) const;
  Status check_guard(size_t guard) const;
  Status check_guards(size_t step) const;
  ScratchPlaces scratch_places(const Instance& instance) const;
  void guard_scratch(const ScratchPlaces& places) const;
  Status check_scratch(const ScratchPlaces& places) const;
  Result<void*> place(int32_t buffer);
  Result<int64_t> alias_offset(int32_t buffer) const;
  Status refresh_arguments(size_t step);
  Status run_step(size_t step);
  // kCancelled once the run of this thread should end.
  Status check_stop(size_t step) const;
  // For programs with devices.
  Status hold_devices(const BoundShape& s);
  void place_on_devices(BoundShape* s) const;
  Result<device::Address> place_on_device(int32_t buffer);
  Status capture_segments();
  Status capture_segment(size_t segment);
  Status enqueue_segment(const plan::Segment& segment);
  Status enqueue_step(size_t step);
  Result<EnqueueContext::Argument> argument(int32_t buffer);
  device::Argument workspace_of(size_t step) const;
  Status run_segment(size_t segment);
  Status step_through(const plan::Segment& segment);
  Status settle_for(size_t step);
  Status walk_steps();
  Status run_on_devices();
  Status write_device(size_t buffer, std::byte value);
  Status check_faults();
  Status hold_ports(const BoundShape& s);
  Status check_room(const BoundShape& s, uint32_t device, int64_t weights) const;
  Status check_rooms(const BoundShape& s, std::span<const int64_t> weights) const;
  bool is_away(int32_t buffer) const { return program().buffers[static_cast<size_t>(buffer)].device != plan::kHost; }
  Status enqueue_inputs();
  Status enqueue_outputs();
  Status settle_all();
  Status finish();
  Result<device::Argument> port_memory(const plan::Port& port) const;
  Status check_resident(const ResidentRun& r) const;
  std::vector<device::Address> in_place(const ResidentRun& r);
  Result<PortSet*> port_set(std::vector<device::Address> given);
  std::vector<device::Address> given_places(const ResidentRun& r) const;
  Result<PortSet*> choose_places(const ResidentRun& r);
  void begin_run();
  void abandon();
  Status run_resident(const ResidentRun& r);
  void fill(size_t buffer, void* host);
  Result<void*> bind_output(size_t k, std::span<const int64_t> dims) override;
  RunContext context_of(size_t step, const ScratchPlaces& places);
  void bind_inputs();
  static Result<size_t> bytes_of(const View& v);
  bool sized(size_t port) const;
  Status place_outputs(std::span<const View> given, std::vector<Tensor>* outs);
  void point_steps();
  Status collect_outputs(std::span<const View> given, std::vector<Tensor>* outs);
  Result<void*> output_memory(size_t port, std::span<const View> given, Tensor* out);
  Result<Tensor> new_output(size_t port);
  Status run_given(std::span<const View> given, std::vector<Tensor>* outs);
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, std::span<const View> outputs);
  Status run_views(std::span<const View> inputs, std::span<const View> outputs, std::vector<Tensor>* others);
};

// A state that grows keeps its contents: `old_dims` row-major at `from` become the corner of `dims` at `to`, all else
// is zero. `to` is `from` or disjoint from it. REQUIRES: the same rank, no smaller dimension, enough memory at `to`.
void grow_contents(const std::byte* from, std::span<const int64_t> old_dims, std::byte* to,
                   std::span<const int64_t> dims, int64_t element_bytes);

}  // namespace peri::runtime
