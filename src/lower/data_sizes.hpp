// Data-dependent sizes: the choice for steps after them, and the execution of the steps that produce them.
#pragma once

#include "lower/lower.hpp"
#include "lower/region.hpp"

namespace peri::lower {

// The options with a size for each dimension of the graph that only a run knows: what follows from them is run by what
// is chosen there, at every size. Devices take no sizes that no host knows before.
Options with_data_sizes(const ir::Graph& graph, const Backend& backend, Options options);

// Whether executor "sized" may do better than the definition: the step binds dimensions or has some that were, and the
// region selects by the data or is told its sizes by integers, and kernels of ours are allowed. Where a device takes no
// assumed sizes, nothing was chosen for what stays on the host behind them: all of it runs so. `g` is the region as a
// graph.
bool sized_by_data(const Region& region, const plan::Step& step, const ir::Graph& g, const Backend& backend,
                   std::string_view provider);

}  // namespace peri::lower
