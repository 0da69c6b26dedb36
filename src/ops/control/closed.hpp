// A body's inputs typed with names of its own: each name in a type occurs alone as a dimension of some input.
#pragma once

#include <set>

#include "ops/entry.hpp"

namespace peri::ops {

using Names = std::map<std::string, Dim, std::less<>>;
using Content = std::optional<std::vector<Dim>>;

struct Closed {
  std::vector<ir::Type> types;
  std::vector<Content> contents;
  std::set<std::string> bound;  // names that occur alone as a dimension
  Names outward;                // those of them that are expressions in the enclosing graph

  bool holds(const Dim& d) const;
  // "STEM_0", or with the first number that makes it differ from the names of all inputs.
  std::string free_name(std::string_view stem) const;
  // Replaces, in types and contents taken from the enclosing graph, sizes that no input binds by names, equal sizes by
  // the same name; contents that use other sizes are dropped.
  void close();
  // Translates a shape of the body to the enclosing graph; sizes known only in the body become fresh ones, the same one
  // for the same name.
  Shape outside(const Shape& inside, InferContext& c, std::string_view stem, Names* made) const;
};

// The body with these types of its inputs; replaced names are replaced in its attributes too.
ir::Graph opened(const ir::Graph& body, const Closed& closed);

}  // namespace peri::ops
