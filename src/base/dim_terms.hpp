// The representation of a dimension expression, for the files that operate on expressions; users of Dim do not see it.
#pragma once

#include "base/dim.hpp"

namespace peri {

constexpr int kMaxDimDepth = 24;  // nesting depth of atoms
// kSum: a + b as one factor, where the terms of a product of sums would be too many.
enum class AtomKind { kSymbol, kFloorDiv, kMod, kMax, kMin, kSum };

struct Atom {
  AtomKind kind;
  std::string text;
  std::string name;
  bool from_zero = false;  // of a symbol: it may be 0
  Dim a, b;
  int depth = 0;
};
using AtomPtr = std::shared_ptr<const Atom>;

struct Term {
  std::string key;  // joined atom texts; "" is the constant term
  std::vector<AtomPtr> atoms;
  int64_t coefficient;
};

struct Dim::Poly {
  std::vector<Term> terms;  // sorted by key, coefficients non-zero
  bool poison = false;
  int depth = 0;
  std::string text;
};

// Rounds towards minus infinity. REQUIRES: b is not 0, and a is not INT64_MIN.
inline int64_t floordiv_int(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

// Null for a constant.
const Dim::Poly* terms_of(const Dim& d);

// The function `kind` of a and b as one atom.
Dim binary_atom(AtomKind kind, const Dim& a, const Dim& b);

// What a maximum or a minimum is taken of, added to `out`: a, b and c of max(max(a, b), c); any other size is itself.
void collect_operands(AtomKind kind, const Dim& d, std::vector<Dim>* out);

}  // namespace peri
