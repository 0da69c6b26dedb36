// Whether some kernel supports a region, so that it may be cut that way.
#pragma once

#include "lower/cover.hpp"

namespace peri::lower {

// At the tuned dims and at the others. A region that a device would take but for its end is cut there, not given to the
// host. The terms must live as long as the answer.
Accepts accepts_of(const Terms& terms);

}  // namespace peri::lower
