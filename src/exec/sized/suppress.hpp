// NonMaxSuppression on float32 boxes, bit-identical to the definition in ops/non_max_suppression.cpp.
#pragma once

#include "exec/sized/selection.hpp"

namespace peri::exec {

// Lines (one per batch and class) are independent tasks. A candidate is compared with the kept boxes that it may
// overlap: all of them while they are few, then those in the same cells of one axis (kept_boxes.hpp).
Status suppress(const SelectionCall& call);

}  // namespace peri::exec
