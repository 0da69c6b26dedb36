// What kernels offer for a problem, before anything is tried.
#pragma once

#include "tune/tuner.hpp"

namespace peri::tune {

// Of the executors and the provider that the options name; where a kernel of Options::own_executor takes the problem,
// those of that executor alone. With the reasons of who does not.
Candidates collect_offers(const ir::Graph& region, const std::vector<bool>& constant, const Options& options,
                          const device::Target& target);

}  // namespace peri::tune
