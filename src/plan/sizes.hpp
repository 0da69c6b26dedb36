// The sizes of a program as functions: every expression of its buffers, ports and variants compiled once, lifetimes
// computed once. Binding, planning and choosing for new sizes then look up no name and parse no expression.
#pragma once

#include "base/size_table.hpp"
#include "plan/order.hpp"
#include "plan/program.hpp"

namespace peri::plan {

// Values are indexed as table.names(): the program's dimensions come first, in their order.
struct ProgramSizes {
  struct BufferSizes {
    int32_t bytes = 0, alias_offset = 0;
  };
  SizeTable table;
  std::vector<BufferSizes> buffers;
  std::vector<std::vector<int32_t>> inputs, outputs;  // dimensions of the ports
  std::vector<std::vector<int32_t>> symbols;          // per input and axis: the bare dimension it binds; -1: none
  std::vector<std::vector<int64_t>> least;            // per input and axis: the smallest that this may be
  struct Limit {
    int32_t dim = -1;
    int64_t least = 0, most = INT64_MAX;
  };
  std::vector<Limit> limits;
  std::vector<std::vector<std::vector<int32_t>>> holds;  // per step and variant: the expressions of `holds_for`
  std::vector<Lifetime> lifetimes;
  Spans spans;  // for programs with devices other than the host
};
ProgramSizes compile_sizes(const Program& program);

// As bind_dims(), into values; dimensions that a step binds become kNoSize.
Status bind_sizes(const Program& program, const ProgramSizes& sizes,
                  const std::vector<std::vector<int64_t>>& input_dims, std::vector<int64_t>* values);
// Memory that steps of devices need in addition to their arguments while they run, in the arena of their device.
struct Workspaces {
  std::vector<int64_t> bytes;   // per step
  std::vector<int64_t> offset;  // per step, once planned; kUnbound: none
};
constexpr int64_t kWorkspaceAlignment = 256;
// As plan_arena() and choose_variant() of a binding. A workspace overlaps nothing that may be alive while its step
// runs.
Result<ArenaPlan> plan_arena(const Program& program, const ProgramSizes& sizes, std::span<const int64_t> values,
                             Workspaces* workspaces = nullptr);
Result<size_t> choose_variant(const Program& program, const ProgramSizes& sizes, size_t step,
                              const Capabilities& machine, std::span<const int64_t> values);
// Whether the machine meets the requirements of the variant, independent of sizes.
bool fits(const Variant& variant, const Capabilities& machine);
// The error that none of the step's variants fits: kRefused, with the requirements of each.
Error no_variant(const Step& step);

}  // namespace peri::plan
