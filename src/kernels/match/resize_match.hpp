// What kernels of resize read from its node. Independent of the device.
#pragma once

#include "kernels/entry.hpp"
#include "ops/reference/resample.hpp"

namespace peri::kernels {

// The tables of an axis are made while it is planned, so they are kept small: an image or a sound has fewer places.
constexpr int64_t kMaxResizeExtent = 1 << 20;

// Of each axis from `x` to `y`: scales as the model states them, by axis; sizes where it states those. Refuses named
// axes, a kept aspect ratio, a region of interest, and scales that are no constants.
Result<std::vector<ops::AxisGeometry>> resize_geometry(const ir::Node& node, const std::vector<int64_t>& x,
                                                       const std::vector<int64_t>& y);

}  // namespace peri::kernels
