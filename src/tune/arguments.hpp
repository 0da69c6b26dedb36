// The data that candidates are tried on. Each element is a function of seed and position only, so that any part of it
// can be generated alone; weights are as large as those of trained networks, so that sums neither vanish nor saturate.
#pragma once

#include <vector>

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace peri::tune {

// About normal: mean 0, deviation 1, never beyond 3.5.
float seeded_normal(uint64_t seed, int64_t at);

// Fills an input whose rows are regions of interest, an index and two corners of a box, as its op can take them. False:
// it is none, or what it indexes has sizes that `sizes` leaves open.
bool fill_regions(const ir::Value& v, const DimBinding& sizes, uint64_t seed, Tensor* t);

// Arguments of a concrete problem; that of input k has seed `seed` + k. Activations and residuals are normal. What an
// anchor reads as weights is normal over the square root of its fan-in, as scale of a normalisation about 1, as
// variance positive, as bias half as large as an activation. Indices lie within the range of what they index.
Result<std::vector<Tensor>> make_arguments(const ir::Graph& region, uint64_t seed);

}  // namespace peri::tune
