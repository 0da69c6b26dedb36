// Parsing of dimension expressions and shapes from their text form, and the functions over whole shapes.
#include <algorithm>
#include <charconv>

#include "base/dim.hpp"

namespace peri {

namespace {
constexpr int kMaxParseDepth = 64;

struct DimParser {
  std::string_view text;
  size_t at = 0;
  int depth = 0;

  void skip() {
    while (at < text.size() && text[at] == ' ') ++at;
  }
  bool take(char c) {
    skip();
    if (at < text.size() && text[at] == c) {
      ++at;
      return true;
    }
    return false;
  }
  Error fail(const char* what) const {
    return invalid("bad dimension '%.*s' at %zu: %s", static_cast<int>(std::min<size_t>(text.size(), 80)), text.data(),
                   at, what);
  }
  Result<Dim> number() {
    int64_t v = 0;
    auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), v);
    if (code != std::errc()) return fail("the number does not fit 64 bits");
    at = static_cast<size_t>(end - text.data());
    return Dim(v);
  }
  Dim symbol(std::string_view name) {
    if (at >= text.size() || text[at] != '?') return Dim::symbol(name);
    ++at;
    return Dim::symbol_from_zero(name);
  }
  Result<Dim> call(std::string_view name) {
    PERI_ASSIGN(Dim a, sum());
    if (!take(',')) return fail("expected ','");
    PERI_ASSIGN(Dim b, sum());
    if (!take(')')) return fail("expected ')'");
    if (name == "floordiv") return floordiv(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "max") return max(a, b);
    if (name == "min") return min(a, b);
    if (name == "sum") return a + b;
    return fail("unknown function");
  }
  Result<Dim> factor() {
    if (++depth > kMaxParseDepth) return fail("nested too deep");
    skip();
    if (at >= text.size()) return fail("unexpected end");
    const char c = text[at];
    Result<Dim> out = Dim(0);  // an error is made only where there is one: sizes are read for every step of an engine
    if (c >= '0' && c <= '9') {
      out = number();
    } else if (take('(')) {
      out = sum();
      if (out.ok() && !take(')')) return fail("expected ')'");
    } else if (take('-')) {
      out = factor();
      if (out.ok()) out = Dim(-1) * *out;
    } else if (take('`')) {
      const size_t end = text.find('`', at);
      if (end == std::string_view::npos || end == at) return fail("unclosed or empty name");
      const std::string_view name = text.substr(at, end - at);
      at = end + 1;
      out = symbol(name);
    } else {
      const size_t start = at;
      while (at < text.size() && (isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_' || text[at] == '.'))
        ++at;
      if (at == start) return fail("expected a name or a number");
      const std::string_view name = text.substr(start, at - start);
      out = take('(') ? call(name) : Result<Dim>(symbol(name));
    }
    --depth;
    return out;
  }
  Result<Dim> product_of() {
    PERI_ASSIGN(Dim d, factor());
    while (take('*')) {
      PERI_ASSIGN(Dim f, factor());
      d = d * f;
    }
    return d;
  }
  Result<Dim> sum() {
    PERI_ASSIGN(Dim d, product_of());
    while (true) {
      if (take('+')) {
        PERI_ASSIGN(Dim t, product_of());
        d = d + t;
      } else if (take('-')) {
        PERI_ASSIGN(Dim t, product_of());
        d = d - t;
      } else {
        return d;
      }
    }
  }
};
}  // namespace

Result<Dim> Dim::parse(std::string_view text) {
  if (text.size() > 8192) return invalid("a dimension expression is longer than 8192 bytes");
  DimParser p{text};
  PERI_ASSIGN(Dim d, p.sum());
  p.skip();
  if (p.at != text.size()) return p.fail("trailing text");
  return d;
}

Dim product(std::span<const Dim> dims) {
  int64_t numbers = 1;  // first: terms are multiplied once then
  Dim rest(1);
  bool fits = true;
  for (const Dim& d : dims)
    if (!d.is_const())
      rest = rest * d;
    else
      fits = fits && !__builtin_mul_overflow(numbers, d.value(), &numbers);
  if (fits) return rest * Dim(numbers);
  Dim p(1);
  for (const Dim& d : dims) p = p * d;
  return p;
}

std::string shape_text(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + shape[i].text();
  return out + "]";
}

Result<Shape> parse_shape(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return invalid("a shape is written [a,b,c]");
  text = text.substr(1, text.size() - 2);
  Shape out;
  DimParser p{text};
  p.skip();
  if (p.at == text.size()) return out;
  do {
    PERI_ASSIGN(Dim d, p.sum());
    out.push_back(std::move(d));
    if (out.size() > 64) return invalid("a shape has more than 64 dimensions");
  } while (p.take(','));
  p.skip();
  if (p.at != text.size()) return p.fail("trailing text");
  return out;
}

bool is_const(const Shape& shape) {
  for (const Dim& d : shape)
    if (!d.is_const()) return false;
  return true;
}

Result<std::vector<int64_t>> eval(const Shape& shape, const DimBinding& binding) {
  std::vector<int64_t> out;
  for (const Dim& d : shape) {
    PERI_ASSIGN(const int64_t v, d.eval(binding));
    if (v < 0) return invalid("dimension '%s' is %lld", d.text().c_str(), static_cast<long long>(v));
    out.push_back(v);
  }
  return out;
}

Shape substitute(const Shape& shape, const DimBinding& binding) {
  Shape out;
  for (const Dim& d : shape) out.push_back(d.substitute(binding));
  return out;
}

}  // namespace peri
