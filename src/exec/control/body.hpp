// The body of a control step as an engine of its own, without weights: it is run on host tensors, by several sessions
// at once.
#pragma once

#include <mutex>

#include "base/size_table.hpp"
#include "runtime/engine.hpp"

namespace peri::exec {

class Body {
 public:
  static Result<std::unique_ptr<Body>> create(const plan::Program& program, const runtime::EngineOptions& options);
  const plan::Program& program() const { return engine_->program(); }
  // Runs once. Thread-safe. Errors: those of Session::run().
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, ThreadPool* pool);

 private:
  std::shared_ptr<const runtime::Engine> engine_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<runtime::Session>> idle_;
};

// Dtype and concrete dims of an argument.
struct ArgType {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;
};

// The types of a control step's reads, their sizes compiled once.
class ReadTypes {
 public:
  ReadTypes(const plan::Program& program, const plan::Step& step);
  // Under a binding; a left-out read: kInvalid.
  Result<std::vector<ArgType>> at(const DimBinding& binding) const;

 private:
  SizeTable sizes_;
  std::vector<std::pair<DType, std::vector<int32_t>>> reads_;
};

// An argument as a tensor: numbers are views of the caller's memory, strings copies.
Result<Tensor> argument(const ArgType& type, const void* data);

// Gives result `k` of a control step its place: dims are bound by the runtime if the step binds any, else they must be
// those the program states. `parts` follow one another in the result's memory. Errors: kInvalid if the shape is not the
// stated one.
Status give_result(const plan::Program& program, const plan::Step& step, size_t k, const std::vector<int64_t>& dims,
                   std::span<const Tensor> parts, const runtime::RunContext& context);

// One element of a scalar argument: dtype as given, exactly one element, row-major. Error naming the step.
Status check_scalar(const plan::Program& program, const plan::Step& step, size_t read, DType dtype);

// Element types and ranks of a body's port and a step's buffer must agree.
Status check_port(const plan::Program& program, const plan::Step& step, int32_t buffer, const plan::Port& port,
                  size_t stacked_axes);

}  // namespace peri::exec
