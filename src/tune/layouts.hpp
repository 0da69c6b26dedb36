// Converts tensors to a layout and back, for trials.
#pragma once

#include "exec/region/layouts.hpp"

namespace peri::tune {

using exec::first_difference;
using exec::from_layout;
using exec::physical_dims;
using exec::to_layout;

}  // namespace peri::tune
