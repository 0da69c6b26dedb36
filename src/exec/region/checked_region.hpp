// The checks of a payload before it is passed to its kernel.
#pragma once

#include "exec/region/region_payload.hpp"
#include "kernels/entry.hpp"

namespace peri::exec {

// What every kernel relies on: there is a node that computes from inputs, and each result is computed by a node, once.
Status check_region(const ir::Graph& region);

// The payload's kernel in this binary, for that executor. kRefused: none, another version, or an outside kernel with
// other files.
Result<const kernels::Kernel*> kernel_of(const RegionPayload& payload, std::string_view executor);
// The same for a variant, before its region is read: Executor::check.
Status check_kernel(const plan::Variant& variant, std::string_view executor);

// Whether the kernel allows each result to share the memory that the step states, at this size.
Status check_sharing(const kernels::Instance& instance, const kernels::Kernel& kernel, const plan::Step& step);

}  // namespace peri::exec
