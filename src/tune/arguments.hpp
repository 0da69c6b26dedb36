// The data that candidates are tried on. Each element is a function of seed and position only, so that any part of it
// can be generated alone; weights have the magnitude of those of trained networks, so that sums neither vanish nor
// saturate.
#pragma once

#include <vector>

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace peri::tune {

// Approximately normal: mean 0, deviation 1, at most 3.5 in magnitude.
float seeded_normal(uint64_t seed, int64_t at);

// Fills an input whose rows are regions of interest, an index and two corners of a box, with valid values for its op.
// False: it is not such an input, or it indexes sizes that `sizes` does not bind.
bool fill_regions(const ir::Value& v, const DimBinding& sizes, uint64_t seed, Tensor* t);

// Arguments of a concrete problem; that of input k has seed `seed` + k. Activations and residuals are normal. An
// anchor's weights are normal over the square root of its fan-in, scales of a normalisation about 1, variances
// positive, biases half as large as an activation. Indices lie within the range of the axis that they index.
Result<std::vector<Tensor>> make_arguments(const ir::Graph& region, uint64_t seed);

}  // namespace peri::tune
