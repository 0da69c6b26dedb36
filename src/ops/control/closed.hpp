// A body's inputs in names of its own: each name in a type stands as such in the type of some input.
#pragma once

#include <set>

#include "ops/entry.hpp"

namespace peri::ops {

using Names = std::map<std::string, Dim, std::less<>>;
using Content = std::optional<std::vector<Dim>>;

struct Closed {
  std::vector<ir::Type> types;
  std::vector<Content> contents;
  std::set<std::string> bound;  // names that stand as such in a type
  Names outward;                // those of them that are expressions outside

  bool holds(const Dim& d) const;
  // "STEM_0", or the first number that no input has.
  std::string free_name(std::string_view stem) const;
  // From types and contents as they are outside: sizes that no input binds become names, equal ones the same; contents
  // that say others are dropped.
  void close();
  // A shape inside as it is outside; sizes that only the body knows become new ones, the same for the same name.
  Shape outside(const Shape& inside, InferContext& c, std::string_view stem, Names* made) const;
};

// The body with these types of its inputs. What its attributes say in names that became others is said in those.
ir::Graph opened(const ir::Graph& body, const Closed& closed);

}  // namespace peri::ops
