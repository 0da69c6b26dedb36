// A lower bound of a dimension expression over all values of its symbols.
#include <algorithm>

#include "base/dim_terms.hpp"

namespace peri {

namespace {
// Bounds that hold for every assignment of symbols >= 1, those from zero and of data >= 0; none: not known.
using Bound = std::optional<int64_t>;
Bound low_of(const Dim& d);
Bound low_of(const Atom& a) {
  if (a.kind == AtomKind::kSymbol) return a.from_zero || a.name.starts_with(kDataDim) ? 0 : 1;
  if (a.kind == AtomKind::kMod) return a.b.is_const() && a.b.value() > 0 ? Bound(0) : std::nullopt;
  const Bound x = low_of(a.a), y = low_of(a.b);
  int64_t sum = 0;
  if (a.kind == AtomKind::kSum) return x && y && !__builtin_add_overflow(*x, *y, &sum) ? Bound(sum) : std::nullopt;
  if (a.kind == AtomKind::kFloorDiv)
    return x && a.b.is_const() && a.b.value() > 0 ? Bound(floordiv_int(*x, a.b.value())) : std::nullopt;
  if (a.kind == AtomKind::kMin) return x && y ? Bound(std::min(*x, *y)) : std::nullopt;
  return x && y ? Bound(std::max(*x, *y)) : x ? x : y;
}
Bound high_of(const Atom& a) {
  if (a.kind == AtomKind::kMod && a.b.is_const() && a.b.value() > 0) return a.b.value() - 1;
  if (a.kind == AtomKind::kMin && a.a.is_const()) return a.a.value();
  if (a.kind == AtomKind::kMin && a.b.is_const()) return a.b.value();
  return std::nullopt;
}
// Of d with a term -c*floordiv(a, k), which is at least -c*a/k: k*d is at least k*(d without the term) - c*a.
Bound low_without(const Dim& d, const Term& t) {
  const bool is_part = t.coefficient < 0 && t.atoms.size() == 1 && t.atoms[0]->kind == AtomKind::kFloorDiv;
  if (!is_part || !t.atoms[0]->b.is_const() || t.atoms[0]->b.value() <= 0) return std::nullopt;
  const Atom& part = *t.atoms[0];
  const Dim whole = d - Dim(t.coefficient) * binary_atom(AtomKind::kFloorDiv, part.a, part.b);
  const Bound scaled = low_of(whole * part.b + Dim(t.coefficient) * part.a);
  if (!scaled) return std::nullopt;
  return *scaled / part.b.value() + (*scaled > 0 && *scaled % part.b.value() != 0 ? 1 : 0);
}
Bound low_of(const Dim& d) {
  if (d.is_poison()) return std::nullopt;
  int64_t sum = 0;
  if (d.is_const()) return d.value();
  for (const Term& t : terms_of(d)->terms) {
    int64_t part = t.coefficient;
    if (part < 0 && t.atoms.size() > 1) return std::nullopt;
    for (const AtomPtr& atom : t.atoms) {
      const Bound bound = t.coefficient < 0 ? high_of(*atom) : low_of(*atom);
      if (!bound && t.coefficient < 0) return low_without(d, t);
      if (!bound || (*bound < 0 && t.atoms.size() > 1) || __builtin_mul_overflow(part, *bound, &part))
        return std::nullopt;
    }
    if (__builtin_add_overflow(sum, part, &sum)) return std::nullopt;
  }
  return sum;
}
}  // namespace

bool provably_at_least(const Dim& a, int64_t bound) { return low_of(a) >= Bound(bound); }

}  // namespace peri
