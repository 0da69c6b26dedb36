// What a session keeps between its runs and during one; the parts of it that several files define.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine.hpp"
#include "runtime/memory.hpp"

namespace peri::runtime {

struct Session::State final : RunContext::Binder {
  std::shared_ptr<const Engine> engine;
  std::unique_ptr<ThreadPool> own_pool;
  ThreadPool* pool = nullptr;
  int64_t lowest_dim = 1;
  StepHook hook;
  bool separate = false;

  // For the current input dims.
  bool prepared = false;
  int prepared_threads = 0;
  std::vector<std::vector<int64_t>> input_dims;
  DimBinding binding;
  plan::ArenaPlan arena_plan;
  Memory arena, scratch;
  std::vector<std::shared_ptr<const Instance>> instances;  // null: instantiated while running (data-dependent)
  std::vector<void*> pointers;                             // per buffer
  std::vector<Tensor> weights;                             // per buffer, defined for weights
  std::vector<std::vector<const void*>> reads;
  std::vector<std::vector<void*>> writes;
  std::vector<int64_t> shift;  // per buffer: bytes from the start of what it aliases
  std::vector<bool> taking;    // per buffer, placed separately: a result that takes an argument's memory
  std::vector<std::pair<int64_t, int64_t>> guards;  // of the arena, placed separately: [begin, end), ascending
  std::vector<size_t> guard_of;                     // per buffer: index of the one behind it; 0: none
  bool data_dependent = false;

  // For the current run.
  DimBinding run_binding;
  std::vector<Memory> pooled;                                      // per buffer: data-dependent ones
  std::vector<std::pair<Memory, int64_t>> states;                  // per buffer: kState, with their size; zero at first
  std::vector<std::unique_ptr<std::vector<std::string>>> strings;  // per buffer
  std::vector<Tensor> made_outputs;
  size_t current = 0;

  const plan::Program& program() const { return engine->program(); }
  const EngineOptions& options() const { return engine->options(); }

  Status prepare_for(const std::vector<std::vector<int64_t>>& dims);
  Status layout_memory();
  Status separate_memory();
  Status check_guard(size_t guard) const;
  Status check_guards(size_t step) const;
  Status make_instances();
  Status place_strings();
  Status place_states();
  Result<void*> place(int32_t buffer);
  Status refresh_arguments(size_t step);
  Status run_step(size_t step);
  Result<void*> bind_output(size_t k, std::span<const int64_t> dims) override;
  Status bind_inputs(std::span<const Tensor> inputs);
  Result<Tensor> output_tensor(size_t port, std::span<const View> given);
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, std::span<const View> outputs);
};

}  // namespace peri::runtime
