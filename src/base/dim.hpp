// Dim: a dimension expression over named dimensions in a normal form, so that equal sizes compare equal as text.
// Polynomials with integer coefficients over symbols and floordiv/mod/max/min atoms. Nothing wraps: an expression that
// overflows int64 or grows beyond its caps becomes the poison dimension, which fails when evaluated.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri {

// Values of named dimensions.
using DimBinding = std::map<std::string, int64_t, std::less<>>;

class Dim {
 public:
  Dim() = default;                       // 0
  Dim(int64_t value) : value_(value) {}  // NOLINT: a number is a dimension
  // A named dimension; control bytes and backquotes in the name become '_', so that its text parses back.
  static Dim symbol(std::string_view name);
  // The same for one that may be 0, as the length of a decoder's past is; its text is "name?".
  static Dim symbol_from_zero(std::string_view name);
  static Dim poison();

  bool is_const() const { return !poly_; }
  bool is_const(int64_t v) const { return !poly_ && value_ == v; }
  int64_t value() const;  // REQUIRES is_const()
  bool is_poison() const;
  bool is_symbol() const;           // exactly one named dimension
  std::string symbol_name() const;  // REQUIRES is_symbol()

  // Normal-form text: "batch", "2*batch + 1", "floordiv(sequence + 1, 2)"; parse(text) gives the same Dim.
  std::string text() const;
  static Result<Dim> parse(std::string_view text);

  // Value under a binding; error for an unbound name, overflow, or division by zero.
  Result<int64_t> eval(const DimBinding& binding) const;
  // Replaces bound names by their values.
  Dim substitute(const DimBinding& binding) const;
  Dim substitute(const std::map<std::string, Dim, std::less<>>& binding) const;
  void collect_symbols(std::set<std::string>& out) const;

  friend bool operator==(const Dim& a, const Dim& b);
  friend bool operator<(const Dim& a, const Dim& b) { return a.text() < b.text(); }

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);

  struct Poly;

 private:
  friend struct DimBuilder;
  int64_t value_ = 0;
  std::shared_ptr<const Poly> poly_;  // null: constant
};

// Rounds towards minus infinity; exact polynomial division is recognised (floordiv(2*a*b, 2*a) = b).
Dim floordiv(const Dim& a, const Dim& b);
Dim ceildiv(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);  // a - b * floordiv(a, b)
Dim max(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);

// Prefix of the names of sizes that depend on the data; these may be 0.
constexpr std::string_view kDataDim = "data.";
// True if a >= bound is proven for every assignment of symbols >= 1 (>= 0 for those from zero and those that depend on
// the data), from the signs of the coefficients; false: not proven.
bool provably_at_least(const Dim& a, int64_t bound);

using Shape = std::vector<Dim>;
Dim product(std::span<const Dim> dims);
std::string shape_text(const Shape& shape);  // "[batch,3,224,224]"
Result<Shape> parse_shape(std::string_view text);
bool is_const(const Shape& shape);
Result<std::vector<int64_t>> eval(const Shape& shape, const DimBinding& binding);
Shape substitute(const Shape& shape, const DimBinding& binding);

// a*b and a+b with overflow as an error that names `what`.
Result<int64_t> checked_mul(int64_t a, int64_t b, std::string_view what = "size");
Result<int64_t> checked_add(int64_t a, int64_t b, std::string_view what = "size");
// Product of dims >= 0; error on a negative dim or overflow.
Result<int64_t> checked_numel(std::span<const int64_t> dims);

}  // namespace peri
