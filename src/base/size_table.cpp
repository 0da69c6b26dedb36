// Expressions in postfix order on a stack of fixed depth: an expression of d nested atoms keeps at most three numbers
// for each, the sum, the product and an operand so far.
#include "base/size_table.hpp"

#include <algorithm>
#include <limits>

#include "base/dim_terms.hpp"
#include "base/fault.hpp"

namespace peri {

namespace {
constexpr size_t kMaxStack = 3 * (kMaxDimDepth + 2);
}  // namespace

SizeTable::SizeTable(std::vector<std::string> names) : names_(std::move(names)) {
  for (size_t k = 0; k < names_.size(); ++k) index_.emplace(names_[k], static_cast<int32_t>(k));
}

int32_t SizeTable::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? -1 : it->second;
}

std::vector<int64_t> SizeTable::values_of(const DimBinding& binding) const {
  std::vector<int64_t> values(names_.size(), kNoSize);
  for (size_t k = 0; k < names_.size(); ++k)
    if (const auto it = binding.find(names_[k]); it != binding.end()) values[k] = it->second;
  return values;
}

DimBinding SizeTable::binding_of(std::span<const int64_t> values) const {
  DimBinding binding;
  for (size_t k = 0; k < names_.size(); ++k)
    if (values[k] != kNoSize) binding.emplace(names_[k], values[k]);
  return binding;
}

int32_t SizeTable::load(const std::string& name) {
  const auto [it, fresh] = index_.emplace(name, static_cast<int32_t>(names_.size()));
  if (fresh) names_.push_back(name);
  return it->second;
}

void SizeTable::compile(const Dim& d) {
  const Dim::Poly* poly = terms_of(d);
  if (!poly) return words_.push_back({Op::kPush, d.value()});
  for (size_t t = 0; t < poly->terms.size(); ++t) {
    const Term& term = poly->terms[t];
    bool first = term.coefficient == 1 && !term.atoms.empty();
    if (!first) words_.push_back({Op::kPush, term.coefficient});
    for (const AtomPtr& a : term.atoms) {
      if (a->kind == AtomKind::kSymbol) {
        words_.push_back({Op::kLoad, load(a->name)});
      } else {
        compile(a->a);
        compile(a->b);
        const Op op = a->kind == AtomKind::kFloorDiv ? Op::kFloorDiv
                      : a->kind == AtomKind::kMod    ? Op::kMod
                      : a->kind == AtomKind::kMax    ? Op::kMax
                      : a->kind == AtomKind::kSum    ? Op::kAdd
                                                     : Op::kMin;
        words_.push_back({op, 0});
      }
      if (!first) words_.push_back({Op::kMul, 0});
      first = false;
    }
    if (t) words_.push_back({Op::kAdd, 0});
  }
}

int32_t SizeTable::add(const Dim& expression) {
  const auto [it, fresh] =
      by_text_.emplace(expression.is_poison() ? "!" : expression.text(), static_cast<int32_t>(code_.size()));
  if (!fresh) return it->second;
  Code code;
  code.expression = expression;
  code.first = static_cast<uint32_t>(words_.size());
  if (!expression.is_poison()) compile(expression);  // no code: no value
  code.count = static_cast<uint32_t>(words_.size()) - code.first;
  code.first_needed = static_cast<uint32_t>(needed_.size());
  for (size_t k = code.first; k < words_.size(); ++k) {
    const auto begin = needed_.begin() + code.first_needed;
    const auto dim = static_cast<int32_t>(words_[k].value);
    if (words_[k].op == Op::kLoad && std::find(begin, needed_.end(), dim) == needed_.end()) needed_.push_back(dim);
  }
  code.needed = static_cast<uint32_t>(needed_.size()) - code.first_needed;
  code_.push_back(std::move(code));
  return it->second;
}

std::vector<int32_t> SizeTable::add(std::span<const Dim> shape) {
  std::vector<int32_t> out;
  out.reserve(shape.size());
  for (const Dim& d : shape) out.push_back(add(d));
  return out;
}

bool SizeTable::bound(int32_t index, std::span<const int64_t> values) const {
  const Code& c = code_[static_cast<size_t>(index)];
  for (uint32_t k = 0; k < c.needed; ++k)
    if (values[static_cast<size_t>(needed_[c.first_needed + k])] == kNoSize) return false;
  return true;
}

bool SizeTable::run(const Code& code, std::span<const int64_t> values, int64_t* out) const {
  int64_t stack[kMaxStack];
  size_t top = 0;  // of the numbers on the stack
  for (uint32_t k = 0; k < code.count; ++k) {
    const Word& w = words_[code.first + k];
    if (w.op == Op::kPush || w.op == Op::kLoad) {
      PERI_CHECK(top < kMaxStack);
      stack[top] = w.op == Op::kPush ? w.value : values[static_cast<size_t>(w.value)];
      if (w.op == Op::kLoad && stack[top] == kNoSize) return false;
      ++top;
      continue;
    }
    PERI_CHECK(top >= 2);
    const int64_t y = stack[--top];
    int64_t& x = stack[top - 1];
    const bool divides = w.op == Op::kFloorDiv || w.op == Op::kMod;
    if (divides && (y == 0 || x == std::numeric_limits<int64_t>::min())) return false;
    switch (w.op) {
      case Op::kMul:
        if (__builtin_mul_overflow(x, y, &x)) return false;
        break;
      case Op::kAdd:
        if (__builtin_add_overflow(x, y, &x)) return false;
        break;
      case Op::kFloorDiv: x = x / y - ((x % y != 0) && ((x < 0) != (y < 0))); break;
      case Op::kMod: x = x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0); break;
      case Op::kMax: x = std::max(x, y); break;
      default: x = std::min(x, y);
    }
  }
  if (top != 1) return false;
  *out = stack[0];
  return true;
}

Result<std::vector<int64_t>> SizeTable::eval(std::span<const int32_t> shape, std::span<const int64_t> values) const {
  std::vector<int64_t> dims;
  dims.reserve(shape.size());
  for (const int32_t index : shape) {
    PERI_ASSIGN(const int64_t v, eval(index, values));
    if (v < 0) return invalid("dimension '%s' is %lld", expression(index).text().c_str(), static_cast<long long>(v));
    dims.push_back(v);
  }
  return dims;
}

Result<int64_t> SizeTable::eval(int32_t index, std::span<const int64_t> values) const {
  const Code& code = code_[static_cast<size_t>(index)];
  int64_t out = 0;
  if (run(code, values, &out)) return out;
  auto why = code.expression.eval(binding_of(values));
  if (!why.ok()) return std::move(why).error();
  return internal_error("a compiled size differs from its expression '%s'", code.expression.text().c_str());
}

}  // namespace peri
