// The body of a control step as an engine of its own that uses the weights of the whole: it runs on host tensors, in
// several sessions at once.
#pragma once

#include <mutex>

#include "base/size_table.hpp"
#include "runtime/engine.hpp"

namespace peri::exec {

class Body {
 public:
  // Exclusive use of a session, which is returned on destruction.
  class Lease {
   public:
    Lease(Body* body, std::unique_ptr<runtime::Session> session) : body_(body), session_(std::move(session)) {}
    Lease(Lease&&) = default;
    ~Lease();
    runtime::Session* operator->() const { return session_.get(); }

   private:
    Body* body_;
    std::unique_ptr<runtime::Session> session_;
  };

  static Result<std::unique_ptr<Body>> create(const plan::Program& program, const runtime::PrepareContext& context);
  const plan::Program& program() const { return engine_->program(); }
  // Thread-safe. The pool is for the runs of this lease.
  Result<Lease> lease(ThreadPool* pool);

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

// The types of a control step's reads or writes, their sizes compiled once.
class ArgTypes {
 public:
  ArgTypes(const plan::Program& program, const std::vector<int32_t>& buffers);
  // Under a binding; an omitted one has kInvalid.
  Result<std::vector<ArgType>> at(const DimBinding& binding) const;

 private:
  SizeTable sizes_;
  std::vector<std::pair<DType, std::vector<int32_t>>> types_;
};

// An argument as a tensor: numbers are views of the caller's memory, strings copies.
Result<Tensor> argument(const ArgType& type, const void* data);

// Provides the memory of result `k` of a control step: dims are bound by the runtime if the step binds any, else they
// must be those in the program. `parts` are concatenated in the result's memory. Errors: kInvalid if the shape is not
// the stated one.
Status give_result(const plan::Program& program, const plan::Step& step, size_t k, const std::vector<int64_t>& dims,
                   std::span<const Tensor> parts, const runtime::RunContext& context);

// One element of a scalar argument: dtype as given, exactly one element, row-major. Error naming the step.
Status check_scalar(const plan::Program& program, const plan::Step& step, size_t read, DType dtype);

// Element types and ranks of a body's port and a step's buffer must agree.
Status check_port(const plan::Program& program, const plan::Step& step, int32_t buffer, const plan::Port& port,
                  size_t stacked_axes);

}  // namespace peri::exec
