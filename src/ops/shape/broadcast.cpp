// Broadcasting and index arithmetic shared by the ops.
#include "ops/shape/broadcast.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "base/dim_terms.hpp"

namespace peri::ops {

namespace {
// A size that may be 0: of an input that may be empty, or one that the data decide.
bool is_given_from_zero(const Dim& d) { return d.is_symbol() && !provably_at_least(d, 1); }
bool depends_on_data(const Dim& d) {
  std::set<std::string> names;
  d.collect_symbols(names);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.starts_with(kDataDim); });
}

// Sizes that are broadcast to each other: the result is the largest, or 0 where one that may be 0 is.
struct Sizes {
  Dim largest = Dim(0);
  Dim least = Dim(1);  // of 1 and those that may be 0

  Dim result() const { return least.is_const(1) ? largest : largest * least; }
  static Sizes of_one(const Dim& d) { return {d, provably_at_least(d, 1) ? Dim(1) : min(d, Dim(1))}; }
};

// Whether d is at least 1 wherever `least` is.
bool follows(const Dim& least, const Dim& d) {
  std::vector<Dim> of_least;
  collect_operands(AtomKind::kMin, least, &of_least);
  return std::any_of(of_least.begin(), of_least.end(), [&](const Dim& k) { return provably_at_least(d - k, 0); });
}
// What result() gave, taken apart again, so that a size broadcast to what it is part of changes nothing.
Sizes sizes_in(const Dim& d) {
  const Dim::Poly* const poly = terms_of(d);
  if (!poly || poly->poison) return Sizes::of_one(d);
  for (const AtomPtr& atom : poly->terms[0].atoms) {
    if (atom->kind != AtomKind::kMin) continue;
    const Sizes s{floordiv(d, min(atom->a, atom->b)), min(atom->a, atom->b)};
    std::vector<Dim> parts;
    collect_operands(AtomKind::kMax, s.largest, &parts);
    if (min(s.least, Dim(1)) == s.least && s.result() == d &&
        std::any_of(parts.begin(), parts.end(),
                    [&](const Dim& part) { return provably_at_least(part, 1) || follows(s.least, part); }))
      return s;
  }
  return Sizes::of_one(d);
}
Dim largest_or_none(const Dim& a, const Dim& b) {
  const Sizes x = sizes_in(a), y = sizes_in(b);
  return Sizes{max(x.largest, y.largest), min(x.least, y.least)}.result();
}

Result<Dim> broadcast_dim(const Dim& a, const Dim& b) {
  if (a == b || b.is_const(1)) return a;
  if (a.is_const(1)) return b;
  if (a.is_const() && b.is_const())
    return invalid("shapes do not broadcast")
        .expecting("equal dimensions or 1")
        .but_found(a.text() + " against " + b.text());
  // One side is a number > 1: the symbol must be 1 or that number, and the result is the number in both cases. Two
  // expressions are equal, or one of them is 1 in a run. Two sizes of inputs that may be empty, or that the data
  // decide, are one size under two names, and so are expressions of such data.
  if (a.is_const()) return a;
  if (b.is_const()) return b;
  const Dim both = largest_or_none(a, b);
  if (both == a || both == b) return both;
  const bool some_a = provably_at_least(a, 1), some_b = provably_at_least(b, 1);
  if ((some_a && some_b) || (some_a && is_given_from_zero(b)) || (some_b && is_given_from_zero(a))) return both;
  const bool named = !(is_given_from_zero(a) && is_given_from_zero(b)) && !depends_on_data(a) && !depends_on_data(b);
  return named ? both : a.is_symbol() || !b.is_symbol() ? a : b;
}
}  // namespace

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const size_t from_end = rank - i;
    if (from_end > a.size()) {
      out[i] = b[b.size() - from_end];
    } else if (from_end > b.size()) {
      out[i] = a[a.size() - from_end];
    } else {
      PERI_ASSIGN(out[i], broadcast_dim(a[a.size() - from_end], b[b.size() - from_end]));
    }
  }
  return out;
}

Result<Shape> broadcast_all(std::span<const Shape> shapes) {
  Shape out;
  for (const Shape& s : shapes) {
    PERI_ASSIGN(out, broadcast(out, s));
  }
  return out;
}

std::vector<int64_t> strides_of(std::span<const int64_t> dims) {
  std::vector<int64_t> s(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    s[i] = step;
    step *= dims[i];
  }
  return s;
}

std::vector<int64_t> broadcast_strides(std::span<const int64_t> in, std::span<const int64_t> out) {
  std::vector<int64_t> s(out.size(), 0);
  const std::vector<int64_t> own = strides_of(in);
  const size_t skip = out.size() - in.size();
  for (size_t i = 0; i < in.size(); ++i) s[skip + i] = in[i] == 1 ? 0 : own[i];
  return s;
}

int64_t broadcast_index(int64_t flat, std::span<const int64_t> out_dims, std::span<const int64_t> in_strides) {
  int64_t at = 0;
  for (size_t i = out_dims.size(); i-- > 0;) {
    at += flat % out_dims[i] * in_strides[i];
    flat /= out_dims[i];
  }
  return at;
}

void unravel(int64_t flat, std::span<const int64_t> dims, std::span<int64_t> coordinates) {
  for (size_t i = dims.size(); i-- > 0;) {
    coordinates[i] = flat % dims[i];
    flat /= dims[i];
  }
}

Result<int64_t> normalize_axis(int64_t axis, size_t rank) {
  const int64_t r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r)
    return invalid("axis is out of range")
        .expecting(format("an axis in [%lld, %lld]", static_cast<long long>(-r), static_cast<long long>(r - 1)))
        .but_found(std::to_string(axis));
  return axis < 0 ? axis + r : axis;
}

Result<std::vector<int64_t>> normalize_axes(std::vector<int64_t> axes, size_t rank) {
  for (int64_t& a : axes) {
    PERI_ASSIGN(a, normalize_axis(a, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return invalid("an axis is named twice");
  return axes;
}

std::vector<int64_t> concrete(const ir::Value& v) {
  std::vector<int64_t> out;
  for (const Dim& d : *v.type.shape) out.push_back(d.value());
  return out;
}

}  // namespace peri::ops
