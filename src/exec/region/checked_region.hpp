// The checks of a payload before its kernel gets it.
#pragma once

#include "exec/region/region_payload.hpp"
#include "kernels/entry.hpp"

namespace peri::exec {

// What every kernel relies on: a node that computes from something, results that nodes compute, each once.
Status check_region(const ir::Graph& region);

// The payload's kernel, as this binary has it for that executor. kRefused: none, another version, or one from outside
// whose files are others.
Result<const kernels::Kernel*> kernel_of(const RegionPayload& payload, std::string_view executor);
// The same of a variant, before its region is read: Executor::check.
Status check_kernel(const plan::Variant& variant, std::string_view executor);

// Whether the kernel lets each result take the memory that the step states, at this size.
Status check_sharing(const kernels::Instance& instance, const kernels::Kernel& kernel, const plan::Step& step);

}  // namespace peri::exec
