// Classifiers whose classes have names: they choose a number, which is looked up, so that only the look-up handles
// texts.
#pragma once

#include "ops/entry.hpp"

namespace peri::ops {

// OpDef::upgrade of a classifier with the results label and scores: `numbers` is its attribute for classes that are
// numbers, "classlabels_strings" that for names. Without names the node stays as it is.
Status number_classes(ir::Graph& graph, ir::Node& node, std::string_view numbers);

}  // namespace peri::ops
