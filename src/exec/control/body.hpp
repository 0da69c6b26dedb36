// The body of a control step as an engine of its own that uses the weights of the whole: it runs on host tensors, in
// several sessions at once.
#pragma once

#include <mutex>

#include "base/size_table.hpp"
#include "runtime/engine.hpp"

namespace peri::exec {

// Objects that are costly to make: one for each who has one at the same time, kept for the next.
template <class T>
class Kept {
 public:
  // Exclusive use of an object, which is returned on destruction.
  class Lease {
   public:
    Lease(Kept* of, std::unique_ptr<T> object) : of_(of), object_(std::move(object)) {}
    Lease(Lease&&) = default;
    ~Lease() {
      if (!object_) return;
      const std::lock_guard<std::mutex> lock(of_->mutex_);
      of_->idle_.push_back(std::move(object_));
    }
    T* operator->() const { return object_.get(); }
    T& operator*() const { return *object_; }

   private:
    Kept* of_;
    std::unique_ptr<T> object_;
  };

  // Thread-safe. `make` returns a Result<std::unique_ptr<T>>.
  template <class Make>
  Result<Lease> lease(Make&& make) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        Lease known(this, std::move(idle_.back()));
        idle_.pop_back();
        return known;
      }
    }
    PERI_ASSIGN(std::unique_ptr<T> fresh, make());
    return Lease(this, std::move(fresh));
  }
  Lease lease() {
    return std::move(lease([]() -> Result<std::unique_ptr<T>> { return std::make_unique<T>(); })).value();
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> idle_;
};

class Body {
 public:
  using Lease = Kept<runtime::Session>::Lease;

  static Result<std::unique_ptr<Body>> create(const plan::Program& program, const runtime::PrepareContext& context);
  const plan::Program& program() const { return engine_->program(); }
  // Thread-safe. The pool is for the runs of this lease.
  Result<Lease> lease(ThreadPool* pool);

 private:
  Result<std::unique_ptr<runtime::Session>> make_session() const;

  const plan::Program* named_ = nullptr;  // as BodyTimes names it
  std::shared_ptr<const runtime::Engine> engine_;
  Kept<runtime::Session> sessions_;
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

// An argument as a view of the caller's memory, in the memory that `to` has.
void view_argument(const ArgType& type, const void* data, runtime::View* to);

// The types of a step's results, none where it binds their sizes.
Result<std::vector<ArgType>> result_types(const plan::Step& step, const ArgTypes& writes, const DimBinding& binding);

// The memory of result `k` of a control step, null if it is omitted: dims are bound by the runtime if the step binds
// any, else they must be those in `results`. Errors: kInvalid if the shape is not the stated one.
Result<void*> result_memory(const plan::Step& step, size_t k, const std::vector<int64_t>& dims,
                            const std::vector<ArgType>& results, const runtime::RunContext& context);
// Copies a whole result there.
Status give_result(const plan::Step& step, size_t k, const runtime::View& whole, const std::vector<ArgType>& results,
                   const runtime::RunContext& context);
// A tensor as a view, in the memory that `to` has.
void view_tensor(Tensor* t, runtime::View* to);

// One element of a scalar argument: dtype as given, exactly one element, row-major. Error naming the step.
Status check_scalar(const plan::Program& program, const plan::Step& step, size_t read, DType dtype);

// Element types and ranks of a body's port and a step's buffer must agree.
Status check_port(const plan::Program& program, const plan::Step& step, int32_t buffer, const plan::Port& port,
                  size_t stacked_axes);

}  // namespace peri::exec
