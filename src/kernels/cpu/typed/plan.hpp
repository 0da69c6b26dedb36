// A region of element-wise ops as typed loops over parts that stay in L1: the slots that each loop reads, and the
// broadcast of inputs to the shape of the outputs.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/cpu/task_instance.hpp"
#include "kernels/cpu/typed/loops.hpp"

namespace peri::kernels::cpu::typed {

// The location of a loop's operand: an input of the region (broadcast to the outputs' shape by strides, in elements per
// merged dimension), the result of an earlier loop, or an output.
struct Slot {
  enum class Kind : uint8_t { kInput, kTemporary, kOutput } kind = Kind::kTemporary;
  int bytes = 0;                 // of an element
  size_t index = 0;              // of the source or the output
  std::vector<int64_t> strides;  // of an input; empty: dense like the outputs
  bool one = false;              // an input of one element
};
struct Step {
  Loop loop = nullptr;
  int src[3] = {-1, -1, -1}, dst = -1;  // slots
  double imm[2] = {0, 0};
};
struct Plan {
  std::vector<int64_t> dims;  // merged
  std::vector<Slot> slots;
  std::vector<Source> sources;
  std::vector<Step> steps;
  int64_t elements = 1;
};

using Find = Loop (*)(Op op, Elem of, Elem to);
// Refuses ops, types and shapes for which there is no loop.
Result<Plan> make_plan(const Problem& problem, const Constants& constants, Find find);

int64_t task_count(const Plan& plan);
size_t scratch_bytes(const Plan& plan);
void run_task(const Plan& plan, int64_t task, const Args& args);

}  // namespace peri::kernels::cpu::typed
