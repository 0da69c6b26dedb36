// Ops with data-dependent sizes, on pointers of their own types: NonZero, Compress, Unique of a list, NonMaxSuppression
// and Range, and the sizes themselves (Shape, Size, dims_constant). Their bits are those of the float64 reference.
#pragma once

#include "ir/graph.hpp"
#include "runtime/executor.hpp"

namespace peri::exec {

// A run of the single node of a region: its inputs, null where omitted, and for each of its results the write of the
// step, -1 where it is unused.
struct SelectionCall {
  const ir::Node& node;
  std::vector<const void*> in;
  std::vector<int> out;
  const runtime::RunContext& run;
  // Null: unused.
  Result<void*> result(size_t k, std::span<const int64_t> dims) const {
    if (k >= out.size() || out[k] < 0) return static_cast<void*>(nullptr);
    return run.binder->bind_output(static_cast<size_t>(out[k]), dims);
  }
};
// The sizes of an input, in a graph with numeric sizes, and the number of elements.
std::vector<int64_t> dims_at(const ir::Node& node, size_t port);
int64_t count_of(std::span<const int64_t> dims);
using Selection = Status (*)(const SelectionCall& call);
// The implementation of the region's op; null: another op, or a type or form that is left to its definition. Sizes of
// its inputs need not be numbers yet.
Selection selection_of(const ir::Graph& region);
// The call of a region whose inputs have numeric sizes.
SelectionCall call_of(const ir::Graph& region, const runtime::RunContext& context);

}  // namespace peri::exec
