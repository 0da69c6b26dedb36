// Looks for the innermost divisor that is 0.
#include "base/dim_division.hpp"

#include "base/dim_terms.hpp"

namespace peri {

namespace {
Error divides_by_zero(const Atom& a, const DimBinding& binding) {
  std::set<std::string> names;
  a.b.collect_symbols(names);
  std::string found, zeros;
  for (const std::string& name : names) {
    const auto it = binding.find(name);
    if (it == binding.end()) continue;
    found += (found.empty() ? "'" : " and '") + name + "' is " + std::to_string(it->second);
    if (it->second == 0) zeros += (zeros.empty() ? "'" : " and '") + name + "'";
  }
  Error e = invalid("size '%s' divides by 0", a.text.c_str()).but_found(found);
  if (zeros.empty()) return std::move(e).expecting("sizes at which '" + a.b.text() + "' is not 0");
  return std::move(e)
      .expecting("dimension " + zeros + " at least 1")
      .advise("give dimension " + zeros + " a size of at least 1");
}
}  // namespace

std::optional<Error> division_by_zero(const Dim& d, const DimBinding& binding) {
  const Dim::Poly* const poly = terms_of(d);
  if (!poly) return std::nullopt;
  for (const Term& t : poly->terms)
    for (const AtomPtr& a : t.atoms) {
      if (a->kind == AtomKind::kSymbol) continue;
      for (const Dim* part : {&a->a, &a->b})
        if (auto inside = division_by_zero(*part, binding)) return inside;
      if (a->kind != AtomKind::kFloorDiv && a->kind != AtomKind::kMod) continue;
      if (const auto by = a->b.eval(binding); by.ok() && *by == 0) return divides_by_zero(*a, binding);
    }
  return std::nullopt;
}

}  // namespace peri
