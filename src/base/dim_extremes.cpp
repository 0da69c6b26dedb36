// The largest and the smallest of dimension expressions, in one normal form for any order of their operands.
#include <algorithm>

#include "base/dim_terms.hpp"

namespace peri {

void collect_operands(AtomKind kind, const Dim& d, std::vector<Dim>* out) {
  const Dim::Poly* poly = terms_of(d);
  const bool nested = poly && !poly->poison && poly->terms.size() == 1 && poly->terms[0].coefficient == 1 &&
                      poly->terms[0].atoms.size() == 1 && poly->terms[0].atoms[0]->kind == kind;
  if (!nested) return out->push_back(d);
  collect_operands(kind, poly->terms[0].atoms[0]->a, out);
  collect_operands(kind, poly->terms[0].atoms[0]->b, out);
}

namespace {
// The same operands give the same text in whatever order they are taken together; one that another never passes is
// left out. `sign` 1: the largest, -1: the smallest.
Dim extreme(AtomKind kind, int64_t sign, const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.is_poison() || b.is_poison()) return Dim::poison();
  std::vector<Dim> all, kept;
  collect_operands(kind, a, &all);
  collect_operands(kind, b, &all);
  // Whether y is at least as far as x; a minimum is never larger than any of its operands, and the reverse.
  const AtomKind other = kind == AtomKind::kMax ? AtomKind::kMin : AtomKind::kMax;
  const auto passed = [&](const Dim& x, const Dim& y) {
    std::vector<Dim> of_x;
    collect_operands(other, x, &of_x);
    return provably_at_least(Dim(sign) * (y - x), 0) || std::any_of(of_x.begin(), of_x.end(), [&](const Dim& d) {
             return provably_at_least(Dim(sign) * (y - d), 0);
           });
  };
  for (const Dim& d : all) {
    if (std::any_of(kept.begin(), kept.end(), [&](const Dim& k) { return d == k || passed(d, k); })) continue;
    std::erase_if(kept, [&](const Dim& k) { return passed(k, d); });
    kept.push_back(d);
  }
  std::sort(kept.begin(), kept.end(), [](const Dim& x, const Dim& y) { return x.text() < y.text(); });
  Dim out = kept[0];
  for (size_t k = 1; k < kept.size(); ++k) out = binary_atom(kind, out, kept[k]);
  return out;
}
}  // namespace

Dim max(const Dim& a, const Dim& b) { return extreme(AtomKind::kMax, 1, a, b); }
Dim min(const Dim& a, const Dim& b) { return extreme(AtomKind::kMin, -1, a, b); }

}  // namespace peri
