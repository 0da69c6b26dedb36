// What kernels offer for a problem, before anything is tried.
#pragma once

#include <span>

#include "tune/tuner.hpp"

namespace peri::tune {

// How many of a kernel's offers, best guess first, a measuring build tries on a device: those that are expected to be
// rivals. `best_of_provider`: the least guess of all kernels of its provider for the problem, 0: none says one.
size_t guesses_tried(std::span<const kernels::Offer> offers, double best_of_provider);

// Of the executors and the provider that the options name; where a kernel of Options::own_executor takes the problem,
// those of that executor alone. With the reasons of who does not.
Candidates collect_offers(const ir::Graph& region, const std::vector<bool>& constant, const Options& options,
                          const device::Target& target);

}  // namespace peri::tune
