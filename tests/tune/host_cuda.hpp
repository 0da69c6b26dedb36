// What CUDA defines, for texts that a host's compiler takes: threads of a block as fibers that meet at barriers, what a
// warp does together, copies into shared memory that arrive as late as they may.
#pragma once

#include <string_view>

namespace peri::tune {

// Stands before all texts of a library. A kernel is a plain function of a namespace of its own; peri_run() runs it.
std::string_view host_cuda();

}  // namespace peri::tune
