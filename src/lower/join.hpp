// Joining of regions: two neighbours become one where a kernel runs them together and measures faster than both apart.
#pragma once

#include <span>

#include "lower/region.hpp"
#include "lower/variants.hpp"
#include "plan/lock_file.hpp"
#include "tune/tuner.hpp"

namespace peri::lower {

// Joins each region with the only reader of its only output, where a candidate of the tuner takes the two together at
// the tuned dims and at those of `also`, and its time is below the sum of the best apart; with a lock, exactly where
// the lock has the joint region. No candidate among `refused` counts. Regions stay in a valid order. Without measuring
// nothing is joined.
std::vector<Region> join_regions(const ir::Graph& graph, std::vector<Region> regions, tune::Tuner& tuner,
                                 const DimBinding& tuned_for, std::span<const DimBinding> also,
                                 const RefusedChoices& refused, const plan::LockReader& lock);

}  // namespace peri::lower
