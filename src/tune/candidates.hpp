// The offers of kernels for a problem, before any of them is tried.
#pragma once

#include <span>

#include "tune/tuner.hpp"

namespace peri::tune {

// How many of a kernel's offers, best guess first, a measuring build may try on a device: those that are expected to be
// rivals.
size_t guesses_tried(std::span<const kernels::Offer> offers);
// When the one at `place` of a kernel's offers is tried. `best`, `best_of_provider`: the least guess of the kernel, and
// of all kernels of its provider, for the problem; 0: none says one.
Turn turn_of(size_t place, double best, double best_of_provider);

// Of the executors and the provider that the options name; where a kernel of Options::own_executor takes the problem,
// those of that executor alone. With the reasons of who does not.
Candidates collect_offers(const ir::Graph& region, const std::vector<bool>& constant, const Options& options,
                          const device::Target& target);

}  // namespace peri::tune
