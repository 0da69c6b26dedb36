// Which results of a candidate share the memory of arguments.
#pragma once

#include <vector>

#include "tune/tuner.hpp"

namespace peri::tune {

// The conditions under which an engine lets a result share an argument's memory: kAccuracy where the offer claims more.
Status check_sharing(const ir::Graph& region, const std::vector<bool>& weights, const kernels::Offer& offer);
// The sharing that an engine uses, for each output the input or -1: of floats of the same dims and layout, each
// argument at most once.
std::vector<int> sharing_of(const ir::Graph& region, const kernels::Offer& offer);

}  // namespace peri::tune
