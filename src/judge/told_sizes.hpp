// Sizes that integers among the inputs tell, as the number of keys of a cache: made-up ones must be what the other
// inputs have.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ir/graph.hpp"

namespace peri::judge {

// Inputs of one integer that must have a value for the sizes that they tell to fit those that are given: it says where
// a slice or a range ends or how large a value is made, along an axis that is joined to one of known size, or by how
// much a cache grows for what is written to it. The same of lists of which the largest element says so. Others tell no
// size, or any fits.
struct Told {
  std::map<std::string, int64_t, std::less<>> values;   // by the input's name
  std::map<std::string, int64_t, std::less<>> largest;  // of the elements of a list, as of lengths: the others are less
  DimBinding sizes;                                     // those given, and those that follow
};
Told told_sizes(const ir::Graph& graph, const DimBinding& sizes);
// Integers of at least 1, of which the first is the largest.
void fill_lengths(int64_t largest, uint64_t seed, Tensor* lengths);

// Whether places of a cache are computed from the elements of `input`: such places are in range where it is 0 or 1, if
// they are for any.
bool tells_places(const ir::Value* input);

// How many places are counted, as the keys of a cache are, that elements of `input` are compared with: each says how
// many of them count. None: it is compared with none, or with a number that is not told.
std::optional<int64_t> counted_places(const ir::Value* input, const Told& told);

// Whether all places of caches that are computed from `input` are in range where each of its elements is `value`.
bool places_fit(const ir::Graph& graph, const ir::Value* input, const Told& told, int64_t value);

// Whether a graph's text holds what told_sizes() looks for in lists, tells_places() or counted_places().
bool has_places(std::string_view text);

}  // namespace peri::judge
