// A region of element-wise ops as typed loops over parts that stay in L1: which loop reads which slot, and how inputs
// are brought to the shape of the outputs.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/cpu/task_instance.hpp"
#include "kernels/cpu/typed/loops.hpp"

namespace peri::kernels::cpu::typed {

// Where a loop finds an operand: an input of the region (spread out to the outputs' shape as strides say, in elements
// by merged dimension), what an earlier loop left, or an output.
struct Slot {
  enum class Kind : uint8_t { kInput, kTemporary, kOutput } kind = Kind::kTemporary;
  int bytes = 0;                 // of an element
  size_t index = 0;              // of the source or the output
  std::vector<int64_t> strides;  // of an input; empty: it lies as the outputs do
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
// Refuses ops, types and shapes it has no loops for.
Result<Plan> make_plan(const Problem& problem, const Constants& constants, Find find);

int64_t task_count(const Plan& plan);
size_t scratch_bytes(const Plan& plan);
void run_task(const Plan& plan, int64_t task, const Args& args);

}  // namespace peri::kernels::cpu::typed
