// Sizes at which places that a model computes leave the table that they index, as the positions of a text that is
// longer than a table of them, and the largest size at which they do not.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "ir/graph.hpp"

namespace peri::judge {

// What decides the places: sizes alone, so that no input makes the model run, or elements of inputs too.
enum class Places { kOfSizes, kOfInputs };

struct IndexLimit {
  Places places = Places::kOfInputs;
  std::string node;    // it indexes
  int64_t rows = 0;    // of its table
  int64_t index = 0;   // the first that is out of range at these sizes
  std::string symbol;  // the dimension that has to be less; empty: no size of one dimension alone is enough
  int64_t most = 0;    // its largest size at which every index is in range
  // "'/Gather_17' is given index 130 of a table of 130 rows with made-up inputs: sequence=128 is the largest that fits"
  std::string text() const;
};

// Of `graph` at `sizes`, those of inputs with made-up ones that are indices of what they index themselves (see
// make_inputs()). Only indices that a few operators on integers compute are looked at, of at most some million
// elements. None: all are in range, or nothing is known.
std::optional<IndexLimit> index_limit(const ir::Graph& graph, const DimBinding& sizes, Places places);

// kUsage with such a limit where sizes alone decide it, so that no input makes the model run: of the sizes, or of a
// smallest or largest size that was asked for.
Status check_places(const ir::Graph& graph, const DimBinding& sizes, std::span<const DimBinding> bounds = {});

}  // namespace peri::judge
