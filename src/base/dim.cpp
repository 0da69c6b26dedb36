// Normal form: a sorted list of terms, each a coefficient times a sorted list of atoms. Atoms are interned by their
// text, so comparison is textual and total. Limits keep untrusted expressions small.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/dim_division.hpp"
#include "base/dim_terms.hpp"

namespace peri {

namespace {
// A detector concatenates the boxes kept of each class, a sum with one symbol per class. Beyond kMaxProductTerms a
// product keeps the sums among its factors unexpanded.
constexpr size_t kMaxTerms = 512;
constexpr size_t kMaxProductTerms = 256;
constexpr size_t kMaxFactorTerms = 8;         // of one that is expanded there
constexpr size_t kMaxText = size_t{1} << 16;  // sums of products of sums, each written out twice
constexpr size_t kMaxAtoms = 16;
}  // namespace

namespace {
bool plain_name(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  if (name == "floordiv" || name == "mod" || name == "max" || name == "min" || name == "sum") return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}
std::string quote_name(std::string_view name) {
  return plain_name(name) ? std::string(name) : "`" + std::string(name) + "`";
}
std::string term_text(const Term& t, int64_t magnitude) {
  std::string out;
  if (t.atoms.empty() || magnitude != 1) out = std::to_string(magnitude);
  for (const AtomPtr& a : t.atoms) out += (out.empty() ? "" : "*") + a->text;
  return out;
}
}  // namespace

struct DimBuilder {
  using Terms = std::vector<Term>;

  static Terms terms_of(const Dim& d) {
    if (d.poly_) return d.poly_->terms;
    if (d.value_ == 0) return {};
    return {Term{"", {}, d.value_}};
  }
  static bool poison(const Dim& d) { return d.poly_ && d.poly_->poison; }
  static int depth(const Dim& d) { return d.poly_ ? d.poly_->depth : 0; }

  // Sorts, merges and drops zero terms; gives a constant Dim where it can.
  static Dim make(Terms all) {
    Terms terms;
    for (Term& t : all) {
      if (t.atoms.size() != 1 || t.atoms[0]->kind != AtomKind::kSum) {
        terms.push_back(std::move(t));
        continue;
      }
      for (const Dim* side : {&t.atoms[0]->a, &t.atoms[0]->b})  // alone it is what it sums
        for (Term u : terms_of(*side)) {
          if (__builtin_mul_overflow(u.coefficient, t.coefficient, &u.coefficient)) return Dim::poison();
          terms.push_back(std::move(u));
        }
    }
    std::sort(terms.begin(), terms.end(), [](const Term& x, const Term& y) { return x.key < y.key; });
    Terms merged;
    for (Term& t : terms) {
      if (!merged.empty() && merged.back().key == t.key) {
        if (__builtin_add_overflow(merged.back().coefficient, t.coefficient, &merged.back().coefficient))
          return Dim::poison();
      } else {
        merged.push_back(std::move(t));
      }
    }
    std::erase_if(merged, [](const Term& t) { return t.coefficient == 0; });
    if (merged.empty()) return Dim(0);
    if (merged.size() == 1 && merged[0].atoms.empty()) return Dim(merged[0].coefficient);
    if (merged.size() > kMaxTerms) return Dim::poison();
    auto poly = std::make_shared<Dim::Poly>();
    for (const Term& t : merged) {
      if (t.atoms.size() > kMaxAtoms || t.coefficient == std::numeric_limits<int64_t>::min()) return Dim::poison();
      for (const AtomPtr& a : t.atoms) poly->depth = std::max(poly->depth, a->depth);
    }
    if (poly->depth > kMaxDimDepth) return Dim::poison();
    // The constant term has the empty key and sorts first; print it last.
    auto print = [&](const Term& t) {
      const bool negative = t.coefficient < 0;
      if (poly->text.empty()) {
        if (negative) poly->text = "-";
      } else {
        poly->text += negative ? " - " : " + ";
      }
      poly->text += term_text(t, negative ? -t.coefficient : t.coefficient);
    };
    for (const Term& t : merged)
      if (!t.atoms.empty()) print(t);
    for (const Term& t : merged)
      if (t.atoms.empty()) print(t);
    poly->terms = std::move(merged);
    if (poly->text.size() > kMaxText) return Dim::poison();
    Dim d;
    d.poly_ = std::move(poly);
    return d;
  }

  static AtomPtr symbol_atom(std::string name, bool from_zero) {
    auto atom = std::make_shared<Atom>();
    atom->kind = AtomKind::kSymbol;
    atom->text = quote_name(name) + (from_zero ? "?" : "");
    atom->name = std::move(name);
    atom->from_zero = from_zero;
    return atom;
  }
  static Dim symbol(std::string_view name, bool from_zero) {
    std::string printable(name);
    std::replace_if(
        printable.begin(), printable.end(), [](char c) { return c == '`' || static_cast<unsigned char>(c) < 0x20; },
        '_');
    const AtomPtr atom = symbol_atom(std::move(printable), from_zero);
    return make({Term{atom->text, {atom}, 1}});
  }
  // REQUIRES: not a symbol.
  static AtomPtr atom_of(AtomKind kind, const Dim& a, const Dim& b) {
    static constexpr const char* kNames[] = {"", "floordiv", "mod", "max", "min", "sum"};
    auto atom = std::make_shared<Atom>();
    atom->kind = kind;
    atom->a = a;
    atom->b = b;
    atom->text = std::string(kNames[static_cast<int>(kind)]) + "(" + a.text() + ", " + b.text() + ")";
    atom->depth = 1 + std::max(depth(a), depth(b));
    return atom;
  }

  static std::string key_of(const std::vector<AtomPtr>& atoms) {
    std::string key;
    for (const AtomPtr& a : atoms) key += (key.empty() ? "" : "*") + a->text;
    return key;
  }
  // A sum as one term: the common factors of all its terms, times the rest of them as an atom. The factors are
  // separate, so that the term is the same in whatever order a product is multiplied. REQUIRES: at least two terms.
  static Term held(Terms all) {
    Term common = all[0];
    for (const Term& t : all) {
      common.coefficient = std::gcd(common.coefficient, t.coefficient);
      std::vector<AtomPtr> rest = t.atoms;
      std::erase_if(common.atoms, [&](const AtomPtr& a) {
        const auto it = std::find_if(rest.begin(), rest.end(), [&](const AtomPtr& b) { return b->text == a->text; });
        if (it == rest.end()) return true;
        rest.erase(it);
        return false;
      });
    }
    for (Term& t : all) {
      t.coefficient /= common.coefficient;
      for (const AtomPtr& a : common.atoms)
        t.atoms.erase(
            std::find_if(t.atoms.begin(), t.atoms.end(), [&](const AtomPtr& b) { return b->text == a->text; }));
      t.key = key_of(t.atoms);
    }
    std::sort(all.begin(), all.end(), [](const Term& x, const Term& y) { return x.key < y.key; });
    const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    common.atoms.push_back(atom_of(AtomKind::kSum, make({all.begin(), half}), make({half, all.end()})));
    std::sort(common.atoms.begin(), common.atoms.end(), [](auto& a, auto& b) { return a->text < b->text; });
    common.key = key_of(common.atoms);
    return common;
  }

  static Dim multiply(const Dim& x, const Dim& y) {
    Terms out, xs = terms_of(x), ys = terms_of(y);
    if (xs.size() > 1 && ys.size() > 1 && xs.size() * ys.size() > kMaxProductTerms)
      for (Terms* side : {&xs, &ys})
        if (side->size() > kMaxFactorTerms) *side = {held(std::move(*side))};
    for (const Term& s : xs) {
      for (const Term& t : ys) {
        Term p;
        if (__builtin_mul_overflow(s.coefficient, t.coefficient, &p.coefficient)) return Dim::poison();
        p.atoms = s.atoms;
        p.atoms.insert(p.atoms.end(), t.atoms.begin(), t.atoms.end());
        if (p.atoms.size() > kMaxAtoms) return Dim::poison();
        std::sort(p.atoms.begin(), p.atoms.end(), [](auto& a, auto& b) { return a->text < b->text; });
        p.key = key_of(p.atoms);
        out.push_back(std::move(p));
      }
    }
    return make(std::move(out));
  }

  // x / y if y is one term that divides every term of x exactly; the quotient goes to `out`.
  static bool divide_exact(const Dim& x, const Dim& y, Dim* out) {
    if (x == y) {
      *out = Dim(1);
      return true;
    }
    Terms ys = terms_of(y);
    if (ys.size() > kMaxFactorTerms) ys = {held(std::move(ys))};
    if (ys.size() != 1) return false;
    Terms quotient;
    for (Term t : terms_of(x)) {
      if (t.coefficient == std::numeric_limits<int64_t>::min() || t.coefficient % ys[0].coefficient != 0) return false;
      t.coefficient /= ys[0].coefficient;
      for (const AtomPtr& a : ys[0].atoms) {
        auto it = std::find_if(t.atoms.begin(), t.atoms.end(), [&](auto& b) { return b->text == a->text; });
        if (it == t.atoms.end()) return false;
        t.atoms.erase(it);
      }
      t.key = key_of(t.atoms);
      quotient.push_back(std::move(t));
    }
    *out = make(std::move(quotient));
    return true;
  }

  template <class F>  // F: const Atom& -> Dim
  static Dim rebuild(const Dim& d, const F& replace) {
    if (!d.poly_ || d.poly_->poison) return d;
    Dim sum(0);
    for (const Term& t : d.poly_->terms) {
      Dim p(t.coefficient);
      for (const AtomPtr& a : t.atoms) p = multiply(p, replace(*a));
      sum = sum + p;
    }
    return sum;
  }
  static const Dim::Poly* poly(const Dim& d) { return d.poly_.get(); }
  static void set_poly(Dim& d, std::shared_ptr<const Dim::Poly> p) { d.poly_ = std::move(p); }
};

const Dim::Poly* terms_of(const Dim& d) { return DimBuilder::poly(d); }

Dim Dim::symbol(std::string_view name) { return DimBuilder::symbol(name, false); }
Dim Dim::symbol_from_zero(std::string_view name) { return DimBuilder::symbol(name, true); }

Dim Dim::poison() {
  static const std::shared_ptr<const Poly> kPoison = [] {
    auto p = std::make_shared<Poly>();
    p->poison = true;
    p->text = "overflow";
    return p;
  }();
  Dim d;
  d.poly_ = kPoison;
  return d;
}

int64_t Dim::value() const {
  PERI_CHECK(is_const(), "dimension " + text() + " is not a constant");
  return value_;
}
bool Dim::is_poison() const { return poly_ && poly_->poison; }
bool Dim::is_symbol() const {
  return poly_ && !poly_->poison && poly_->terms.size() == 1 && poly_->terms[0].coefficient == 1 &&
         poly_->terms[0].atoms.size() == 1 && poly_->terms[0].atoms[0]->kind == AtomKind::kSymbol;
}
std::string Dim::symbol_name() const {
  PERI_CHECK(is_symbol());
  return poly_->terms[0].atoms[0]->name;
}
std::string Dim::text() const { return poly_ ? poly_->text : std::to_string(value_); }

bool operator==(const Dim& a, const Dim& b) {
  if (a.is_const() != b.is_const()) return false;
  return a.is_const() ? a.value_ == b.value_ : a.poly_ == b.poly_ || (!a.is_poison() && a.poly_->text == b.poly_->text);
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_poison() || b.is_poison()) return Dim::poison();
  auto terms = DimBuilder::terms_of(a);
  for (auto& t : DimBuilder::terms_of(b)) terms.push_back(t);
  return DimBuilder::make(std::move(terms));
}
Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_poison() || b.is_poison()) return Dim::poison();
  if (a.is_const(1)) return b;
  return b.is_const(1) ? a : DimBuilder::multiply(a, b);
}
Dim operator-(const Dim& a, const Dim& b) { return a + Dim(-1) * b; }

Dim binary_atom(AtomKind kind, const Dim& a, const Dim& b) {
  if (a.is_poison() || b.is_poison()) return Dim::poison();
  const AtomPtr atom = DimBuilder::atom_of(kind, a, b);
  return DimBuilder::make({Term{atom->text, {atom}, 1}});
}

Dim floordiv(const Dim& a, const Dim& b) {
  if (b.is_const(1)) return a;
  if (b.is_const(0)) return Dim::poison();
  if (a.is_const() && b.is_const()) {
    if (a.value() == std::numeric_limits<int64_t>::min()) return Dim::poison();
    return floordiv_int(a.value(), b.value());
  }
  Dim q;
  if (!a.is_poison() && !b.is_poison() && DimBuilder::divide_exact(a, b, &q)) return q;
  if (b.is_const() && b.value() > 1 && !a.is_poison()) {
    // Pull the part that divides exactly out: floordiv(4*s + 3, 2) = 2*s + floordiv(3, 2).
    DimBuilder::Terms exact, rest;
    for (Term& t : DimBuilder::terms_of(a)) {
      const int64_t part = floordiv_int(t.coefficient, b.value()) * b.value();
      if (t.atoms.empty() || part == t.coefficient) {
        if (part != 0) exact.push_back(Term{t.key, t.atoms, part / b.value()});
        if (part != t.coefficient) rest.push_back(Term{t.key, t.atoms, t.coefficient - part});
      } else {
        rest.push_back(t);
      }
    }
    if (!exact.empty()) return DimBuilder::make(exact) + floordiv(DimBuilder::make(rest), b);
  }
  return binary_atom(AtomKind::kFloorDiv, a, b);
}
Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + b - Dim(1), b); }
Dim mod(const Dim& a, const Dim& b) {
  if (b.is_const(0)) return Dim::poison();
  Dim q;
  if (b.is_const(1) || (!a.is_poison() && !b.is_poison() && DimBuilder::divide_exact(a, b, &q))) return 0;
  if (a.is_const() && b.is_const()) return a - b * floordiv(a, b);
  return binary_atom(AtomKind::kMod, a, b);
}
Result<int64_t> Dim::eval(const DimBinding& binding) const {
  if (is_const()) return value_;
  if (is_poison()) return invalid("a size expression overflows 64 bits or its caps");
  int64_t sum = 0;
  for (const Term& t : poly_->terms) {
    int64_t p = t.coefficient;
    for (const AtomPtr& a : t.atoms) {
      int64_t v = 0;
      if (a->kind == AtomKind::kSymbol) {
        auto it = binding.find(a->name);
        if (it == binding.end()) return invalid("dimension '%s' is not bound", a->name.c_str());
        v = it->second;
      } else {
        PERI_ASSIGN(const int64_t x, a->a.eval(binding));
        PERI_ASSIGN(const int64_t y, a->b.eval(binding));
        const bool divides = a->kind == AtomKind::kFloorDiv || a->kind == AtomKind::kMod;
        if (divides && y == 0) return *division_by_zero(*this, binding);
        if (divides && x == std::numeric_limits<int64_t>::min())
          return invalid("size '%s' overflows 64 bits", a->text.c_str());
        if (a->kind == AtomKind::kFloorDiv) v = floordiv_int(x, y);
        if (a->kind == AtomKind::kMod) v = x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
        if (a->kind == AtomKind::kMax) v = std::max(x, y);
        if (a->kind == AtomKind::kMin) v = std::min(x, y);
        if (a->kind == AtomKind::kSum) {
          PERI_ASSIGN(v, checked_add(x, y, a->text));
        }
      }
      PERI_ASSIGN(p, checked_mul(p, v, poly_->text));
    }
    PERI_ASSIGN(sum, checked_add(sum, p, poly_->text));
  }
  return sum;
}

namespace {
template <class Map>
Dim substitute_any(const Dim& d, const Map& binding) {
  return DimBuilder::rebuild(d, [&](const Atom& a) -> Dim {
    if (a.kind == AtomKind::kSymbol) {
      auto it = binding.find(a.name);
      return it == binding.end() ? DimBuilder::symbol(a.name, a.from_zero) : Dim(it->second);
    }
    const Dim x = substitute_any(a.a, binding), y = substitute_any(a.b, binding);
    switch (a.kind) {
      case AtomKind::kFloorDiv: return floordiv(x, y);
      case AtomKind::kMod: return mod(x, y);
      case AtomKind::kMax: return max(x, y);
      case AtomKind::kSum: return x + y;
      default: return min(x, y);
    }
  });
}
}  // namespace

Dim Dim::substitute(const DimBinding& binding) const { return substitute_any(*this, binding); }
Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& binding) const {
  return substitute_any(*this, binding);
}

void Dim::collect_symbols(std::set<std::string>& out) const {
  if (!poly_) return;
  for (const Term& t : poly_->terms) {
    for (const AtomPtr& a : t.atoms) {
      if (a->kind == AtomKind::kSymbol) out.insert(a->name);
      a->a.collect_symbols(out);
      a->b.collect_symbols(out);
    }
  }
}

}  // namespace peri
