// Dimensions of inputs that a model names apart, though a node of it refuses every run in which they differ: exporters
// of pipelines give each input rows of its own. Such names are one dimension.
#pragma once

#include "onnx/import.hpp"

namespace peri::onnx {

// The names to be replaced, each by one that stays: a name of the model where there is one, else the first among the
// inputs. The graph is imported, its types are inferred. Only what holds for every run that ends without an error
// counts: a concat, the sum of a product, and a broadcast of two sizes of at least 2 each.
SameSizes equal_sizes(const ir::Graph& graph);
// `more`, found in a graph that was imported with `known`, added to it.
SameSizes merged(SameSizes known, const SameSizes& more);
// "'fare_dim_0' and 'size_dim_0' are the dimension 'age_dim_0', which node 'features' requires", one for each that
// stays; where no node is known, without it.
std::vector<std::string> same_notes(const SameSizes& same);

}  // namespace peri::onnx
