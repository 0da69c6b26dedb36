// Data-dependent sizes: the choice for steps after them, and the execution of the steps that produce them.
#pragma once

#include "lower/lower.hpp"
#include "lower/region.hpp"

namespace peri::lower {

// The options with a size for each data-dependent dimension of the graph (fit_data_sizes): the steps that depend on it
// are chosen at that size and run at every size. Not for devices, whose steps cannot depend on sizes that the host does
// not know in advance.
Options with_data_sizes(const ir::Graph& graph, const Backend& backend, Options options);

// `dims` with sizes of data-dependent dimensions that each node can have, as far as one value helps: a mask of as many
// columns as the longest length says gets those of the values that it masks. REQUIRES: `dims` has a size for every
// dimension of the graph.
DimBinding fit_data_sizes(const ir::Graph& graph, DimBinding dims);
// Those of them alone, plan::Program::assumed; of what a region reads and makes.
std::map<std::string, int64_t> assumed_sizes(const DimBinding& dims);
DimBinding assumed_sizes(const DimBinding& dims, const Region& region);

// Whether a dimension of one of them is known only while the model runs.
bool has_data_size(const std::vector<ir::Value*>& values);

// Whether executor "sized" may be faster than the definition: the region only states sizes, or the step binds
// dimensions or depends on bound ones, and the region selects by the data or has its sizes given by integers; and own
// kernels are allowed. Where a device accepts no
// assumed sizes, nothing was chosen for the steps that stay on the host after them: all of those run so. `g` is the
// region as a graph.
bool sized_by_data(const Region& region, const plan::Step& step, const ir::Graph& g, const Backend& backend,
                   std::string_view provider);

}  // namespace peri::lower
