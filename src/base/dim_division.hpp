// Sizes that divide by another size, which is 0 where a dimension that may be 0 is.
#pragma once

#include <optional>

#include "base/dim.hpp"

namespace peri {

// What is wrong with `d` where it divides by 0 under the binding, told with the dimensions that are 0; none where it
// does not, or where the divisor is not bound.
std::optional<Error> division_by_zero(const Dim& d, const DimBinding& binding);

}  // namespace peri
