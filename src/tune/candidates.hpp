// The offers of kernels for a problem, before any of them is tried.
#pragma once

#include <span>

#include "tune/tuner.hpp"

namespace peri::tune {

// How many of a kernel's offers, best estimate first, a measuring build may try on a device: those that are expected to
// be rivals.
size_t guesses_tried(std::span<const kernels::Offer> offers);
// When the offer at index `place` of a kernel is tried. `best`, `best_of_provider`: the least estimate of the kernel,
// and of all kernels of its provider, for the problem; 0: there is none.
Turn turn_of(size_t place, double best, double best_of_provider);

// Sets Offer::needs of a candidate of the problem; none where they are not known before an instance is.
void plan_needs(const ir::Graph& region, const std::vector<bool>& constant, const device::Target& target,
                Candidate* candidate);

// The offers of the executors and the provider in the options; where a kernel of Options::own_executor supports the
// problem, only those of that executor. With the reasons of refusals.
Candidates collect_offers(const ir::Graph& region, const std::vector<bool>& constant, const Options& options,
                          const device::Target& target);

}  // namespace peri::tune
