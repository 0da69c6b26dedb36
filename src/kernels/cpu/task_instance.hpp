// An instance from a number of tasks and a function: for kernels whose plan and arguments fit in one lambda.
#pragma once

#include <functional>
#include <optional>

#include "kernels/entry.hpp"

namespace peri::kernels {

class TaskInstance final : public Instance {
 public:
  using Run = std::function<void(int64_t task, const Args& args)>;
  TaskInstance(int64_t tasks, size_t scratch, Run run, int taken = -1)
      : Instance(needs_of_tasks(tasks, scratch)), run_(std::move(run)), taken_(taken) {}
  // `taken`: the input whose memory the first result may reuse; -1: none.
  static Result<std::unique_ptr<Instance>> make(int64_t tasks, size_t scratch, Run run, int taken = -1) {
    return std::unique_ptr<Instance>(std::make_unique<TaskInstance>(tasks, scratch, std::move(run), taken));
  }
  void run_task(int, int64_t task, const Args& args) const override { run_(task, args); }
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && taken_ >= 0 && input == static_cast<size_t>(taken_);
  }

 private:
  Run run_;
  int taken_;
};

// The f32 data of argument k: a constant's, an inline constant's, or the run's.
class Source {
 public:
  Source() = default;
  // `v` null: absent. The tensor keeps inline constants of the region alive.
  static Source of(const Problem& problem, const ir::Value* v, const Constants& constants);
  const void* data(const Args& args) const {
    if (constant_.defined()) return constant_.data();
    return input_ < 0 ? nullptr : args.in[static_cast<size_t>(input_)];
  }
  const float* f32(const Args& args) const { return static_cast<const float*>(data(args)); }
  bool known() const { return input_ >= 0 || constant_.defined(); }

 private:
  int input_ = -1;
  Tensor constant_;
};

// Refuses unless every graph input and output is row-major; for instantiate() of kernels that offer no other layout.
Status check_row_major(const Problem& problem);
// The argument that is the anchor's first input; none if that is an inline constant, which has no choice of layout and
// no memory to share.
std::optional<size_t> data_argument(const Problem& problem);
// One offer, row-major everywhere, that needs the best instruction set the target has.
Offer row_major_offer(const Problem& problem, const Target& target);
// The same, and one in NHWC for element-wise work: the anchor's first input and its result, if they have four
// dimensions. instantiate() then calls check_same_layout().
std::vector<Offer> any_order_offers(const Problem& problem, const Target& target);
Status check_same_layout(const Problem& problem);

}  // namespace peri::kernels
