// Seeded inputs of a whole model within its valid range: integers stay below the size of what they index.
#pragma once

#include <span>

#include "base/rng.hpp"
#include "ir/graph.hpp"

namespace peri::judge {

// How integer inputs are filled.
enum class Integers {
  kIndices,  // below the rows of every table they index, the size that another input has where they tell it, masks
             // mostly one; others zero or one
  kZero,     // and floats whose elements are made integers are that, too
  kOne,
};

// One tensor for each graph input at these sizes: floats normal, booleans mostly true, strings as random_text()
// makes them, or whole numbers where they are read as such; categories where an encoder compares them. Errors: kInvalid
// where a size does not follow from the binding, kMemory.
Result<std::vector<Tensor>> make_inputs(const ir::Graph& graph, const DimBinding& sizes, uint64_t seed,
                                        Integers integers = Integers::kIndices);

// A short text: words in both cases, digits, spaces, characters of several bytes; one in eight is empty.
std::string random_text(Rng& rng);

// Whether it is an error of this node that a string is not a number.
bool reads_numbers(const ir::Node& n);

// Whether strings that these values all hold are read as numbers.
bool are_numbers(std::span<const ir::Value* const> held);

// The rows of the smallest table that an integer indexes, directly, through ops that only move it, or in the bodies of
// branches and loops, which may carry it; none: it is not an index. Values that still hold it are added to `moved`.
std::optional<int64_t> indexed_rows(const ir::Value* input, const DimBinding& sizes,
                                    std::vector<const ir::Value*>* moved = nullptr);

}  // namespace peri::judge
