// CUDA's built-ins for texts compiled by the host's compiler: threads of a block as fibers that synchronise at
// barriers, cooperation within a warp, copies into shared memory that complete as late as allowed.
#pragma once

#include <string_view>

namespace peri::tune {

// Precedes all texts of a library. A kernel is a plain function in a namespace of its own; peri_run() executes it.
std::string_view host_cuda();

}  // namespace peri::tune
