// Whether some kernel supports a region, so that it may be cut that way.
#pragma once

#include "lower/cover.hpp"

namespace peri::lower {

// Asks at the tuned dims and at the others. A region that a device would support except for its last nodes is cut there
// instead of running on the host. The terms must outlive the result.
Accepts accepts_of(const Terms& terms);

}  // namespace peri::lower
