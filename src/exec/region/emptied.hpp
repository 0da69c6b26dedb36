// A region at sizes at which values that may have elements have none, such as a decoder's first step, whose past is
// empty: kernels take no such problem, but many take what is left of it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exec/region/other_kernel.hpp"
#include "exec/region/region_template.hpp"
#include "runtime/executor.hpp"

namespace peri::exec {

// Whether a value of `region` whose shape has no constant 0 has no element in `bound`, the region at some sizes.
bool any_emptied(const ir::Graph& region, const ir::Graph& bound);

// What is left of a bound region without its values that have no elements.
struct Rest {
  ir::Graph graph;                      // without an output: there is nothing to compute
  std::vector<size_t> inputs, outputs;  // of the region, by input and output of the graph
};
// Results without elements are left out, and concat omits its operands without elements; nullopt: another op reads one.
std::optional<Rest> without_emptied(const ir::Graph& region, const ir::Graph& bound);

// A kernel of the executor for a rest, which allows what `shares` states of the region's results (plan::Step::shares).
struct RestKernel {
  std::vector<Tensor> weights;  // of the region's, by input of the rest
  OtherKernel chosen;           // its kernel is null: there is none
};
RestKernel kernel_for_rest(std::string_view executor, const Rest& rest, const kernels::Constants& weights,
                           const std::vector<bool>& constant, const kernels::Target& target,
                           std::span<const int32_t> shares);

// Runs `instance`, made for a rest with these inputs and outputs, on the arguments of the region. Null: does nothing.
std::unique_ptr<runtime::Instance> instance_of_rest(std::unique_ptr<runtime::Instance> instance,
                                                    std::vector<size_t> inputs, std::vector<size_t> outputs);

}  // namespace peri::exec
