// The instance of a float32 convolution with one packed weight and an epilogue: of the direct form, of that by tiles of
// Winograd, and of the transposed one.
#pragma once

#include <utility>
#include <vector>

#include "kernels/cpu/conv/conv.hpp"
#include "kernels/cpu/gemm/bound_epilogue.hpp"
#include "kernels/entry.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {

// Plan: `tasks`, `scratch_floats`, `shape.oc`, and beside it run_task(plan, ConvArgs, task, scratch).
template <class Plan>
void run_conv(const Plan& plan, const cpu::ConvArgs& args, int64_t task, float* scratch) {
  run_task(plan, args, task, scratch);
}
template <class Plan>
Needs conv_needs(const Plan& plan) {
  return needs_of_tasks(plan.tasks, static_cast<size_t>(plan.scratch_floats) * sizeof(float));
}

// Setup: input `x`, and `epilogue`. `taken`: the input whose memory the result may take; -1: none.
template <class Setup, class Plan>
class ConvInstance final : public Instance {
 public:
  ConvInstance(Setup setup, Plan plan, Packed packed, std::vector<Tensor> constants, int taken)
      : Instance(conv_needs(plan)),
        taken_(taken),
        setup_(std::move(setup)),
        plan_(std::move(plan)),
        packed_(std::move(packed)),
        constants_(std::move(constants)) {}
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && taken_ >= 0 && input == static_cast<size_t>(taken_);
  }
  void run_task(int, int64_t task, const Args& args) const override {
    cpu::ConvArgs a;
    a.x = static_cast<const float*>(args.in[static_cast<size_t>(setup_.x)]);
    a.w = packed_floats(packed_);
    a.y = static_cast<float*>(args.out[0]);
    a.epilogue = bind_epilogue(setup_.epilogue, constants_, args, plan_.shape.oc);
    run_conv(plan_, a, task, reinterpret_cast<float*>(args.scratch));
  }

 private:
  int taken_;
  Setup setup_;
  Plan plan_;
  Packed packed_;
  std::vector<Tensor> constants_;
};

// With the weight `setup.w` packed already; the rest of the constants is kept.
template <class Setup, class Plan>
std::unique_ptr<Instance> conv_instance(Setup setup, Plan plan, const InstantiateContext& c, int taken) {
  std::vector<Tensor> constants = c.constants.all_but({setup.w});
  return std::make_unique<ConvInstance<Setup, Plan>>(std::move(setup), std::move(plan), *c.packed, std::move(constants),
                                                     taken);
}

}  // namespace peri::kernels
