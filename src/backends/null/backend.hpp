// The null device as a backend, for tests: programs as the CPU's kernels shape them (regions, layouts, joins), every
// step that may leave the host on the null device, which computes it by definition, over three lanes.
#pragma once

#include "lower/backend.hpp"

namespace peri::backends::null {

const lower::Backend& backend();

}  // namespace peri::backends::null
