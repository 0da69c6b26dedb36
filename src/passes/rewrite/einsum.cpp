// Reads an equation, and contracts its operands two by two.
#include "passes/rewrite/einsum.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>

#include "ops/shape/broadcast.hpp"

namespace peri::passes {

bool multiplies(DType t) {
  return is_float(t) || t == DType::kI32 || t == DType::kI64 || t == DType::kU32 || t == DType::kU64;
}

namespace {
constexpr size_t kMaxWide = 10;       // axes under an ellipsis: they are named '0' to '9', from the right
constexpr int64_t kOpenExtent = 128;  // of a dimension without a number, where products are compared

bool has(const std::string& term, char c) { return term.find(c) != std::string::npos; }
// Letters of `of` for which the rest holds.
template <class F>
std::string those(const std::string& of, F f) {
  std::string out;
  for (const char c : of)
    if (f(c)) out += c;
  return out;
}

struct Operand {
  ir::Value* v;
  std::string term;  // a letter for each axis
  const Dim& extent(char c) const { return (*v->type.shape)[term.find(c)]; }
};

// A term of letters, its ellipsis as `wide` digits; none where it is no such term. `again`: a letter may be named
// twice.
std::optional<std::string> read_term(const std::string& text, size_t wide, bool again) {
  std::string out;
  for (size_t k = 0; k < text.size(); ++k) {
    if (std::isalpha(static_cast<unsigned char>(text[k])) && (again || !has(out, text[k]))) {
      out += text[k];
    } else if (text.compare(k, 3, "...") == 0 && text.rfind("...") == k && wide <= kMaxWide) {
      for (size_t axis = wide; axis-- > 0;) out += static_cast<char>('0' + axis);
      k += 2;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

// The axes of the result where the equation does not say them: those under an ellipsis, then letters named once.
std::string implied(const std::vector<Operand>& operands) {
  std::map<char, int> uses;  // digits before letters, each in the order of its code
  for (const Operand& o : operands)
    for (const char c : o.term) ++uses[c];
  std::string digits, letters;
  for (const auto& [c, count] : uses) {
    if (std::isdigit(static_cast<unsigned char>(c)))
      digits.insert(digits.begin(), c);
    else if (count == 1)
      letters += c;
  }
  return digits + letters;
}

// Whether axes of one letter are equal in every run.
bool is_square(const Operand& o) {
  for (size_t axis = 0; axis < o.term.size(); ++axis)
    if (!((*o.v->type.shape)[axis] == o.extent(o.term[axis]))) return false;
  return true;
}

struct Equation {
  std::vector<Operand> operands;
  std::string result;
  std::string text;  // as the model has it
};

std::optional<Equation> read(const ir::Node& n) {
  std::string text = those(n.s("equation"), [](char c) { return c != ' '; });
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation e{{}, "", n.s("equation")};
  size_t wide = 0, at = 0;
  for (ir::Value* v : n.inputs) {
    if (at > left.size() || !v || !v->type.known()) return std::nullopt;
    const size_t comma = std::min(left.find(',', at), left.size());
    const std::string term = left.substr(at, comma - at);
    at = comma + 1;
    const bool dots = term.find("...") != std::string::npos;
    const size_t letters = term.size() - (dots ? 3 : 0), rank = v->type.rank();
    if (letters > rank || (!dots && letters != rank)) return std::nullopt;
    auto named = read_term(term, rank - letters, true);
    if (!named || named->size() != rank || !is_square({v, *named})) return std::nullopt;
    wide = std::max(wide, rank - letters);
    e.operands.push_back({v, *std::move(named)});
  }
  if (at <= left.size()) return std::nullopt;
  const auto result =
      arrow == std::string::npos ? std::optional(implied(e.operands)) : read_term(text.substr(arrow + 2), wide, false);
  if (!result || result->size() != n.out()->type.rank()) return std::nullopt;
  e.result = *result;
  return e;
}

// Whether no letter has two numbers as extents, apart from 1, and the result's are named.
bool agrees(const Equation& e) {
  std::map<char, Dim> extents;
  for (const Operand& o : e.operands)
    for (const char c : o.term) {
      const auto [known, fresh] = extents.emplace(c, o.extent(c));
      if (fresh || known->second == o.extent(c) || o.extent(c).is_const(1)) continue;
      if (known->second.is_const() && !known->second.is_const(1) && o.extent(c).is_const()) return false;
      if (!known->second.is_const() || known->second.is_const(1)) known->second = o.extent(c);
    }
  return std::all_of(e.result.begin(), e.result.end(), [&](char c) { return extents.contains(c); });
}

// With its axes as `wanted` names them.
Result<ir::Value*> arranged(Rewriter& w, const Operand& o, const std::string& wanted) {
  std::vector<int64_t> perm;
  for (const char c : wanted) perm.push_back(static_cast<int64_t>(o.term.find(c)));
  if (std::is_sorted(perm.begin(), perm.end())) return o.v;
  return w.transpose(o.v, perm, o.v);
}

// The same with a one where `wanted` names an axis that it has not.
Result<ir::Value*> aligned(Rewriter& w, const Operand& o, const std::string& wanted) {
  Shape to;
  for (const char c : wanted) to.push_back(has(o.term, c) ? o.extent(c) : Dim(1));
  PERI_ASSIGN(ir::Value * moved, arranged(w, o, those(wanted, [&](char c) { return has(o.term, c); })));
  return w.reshape(moved, to, o.v);
}

Result<ir::Value*> sum_last(Rewriter& w, ir::Value* v, size_t count, const ir::Value* like) {
  if (count == 0) return v;
  std::vector<int64_t> axes;
  for (size_t k = 0; k < count; ++k) axes.push_back(static_cast<int64_t>(v->type.rank() - count + k));
  return w.make("reduce_sum", {v, w.ints(axes, like->name)}, {{"keepdims", int64_t{0}}}, like);
}

// The elements whose places along two axes of one letter are equal, until each is named once. A row of the square is
// one longer than the way from an element of its diagonal to the next.
Result<Operand> diagonal(Rewriter& w, Operand o) {
  const auto twice = [&](char c) { return o.term.find(c) != o.term.rfind(c); };
  for (auto at = std::find_if(o.term.begin(), o.term.end(), twice); at != o.term.end();
       at = std::find_if(o.term.begin(), o.term.end(), twice)) {
    const char c = *at;
    const size_t first = o.term.find(c), second = o.term.find(c, first + 1);
    const Dim n = o.extent(c);
    if (!w.sized_by_inputs({n})) return refused("a diagonal whose length the data decide");
    std::string rest = o.term;
    rest.erase(second, 1).erase(first, 1);
    std::vector<int64_t> perm;
    Shape shape;
    for (size_t axis = 0; axis < o.term.size(); ++axis)
      if (axis != first && axis != second) {
        perm.push_back(static_cast<int64_t>(axis));
        shape.push_back((*o.v->type.shape)[axis]);
      }
    perm.insert(perm.end(), {static_cast<int64_t>(first), static_cast<int64_t>(second)});
    const ir::Value* const like = o.v;
    const auto with = [&](std::initializer_list<Dim> last) {
      Shape out = shape;
      out.insert(out.end(), last);
      return out;
    };
    PERI_ASSIGN(ir::Value * v, w.transpose(o.v, perm, like));
    PERI_ASSIGN(v, w.reshape(v, with({n * n}), like));
    std::vector<Dim> pads(2 * (shape.size() + 1), Dim(0));
    pads.back() = n;
    PERI_ASSIGN(ir::Value * behind, w.make("dims_constant", {}, {{"value", std::move(pads)}}, like));
    PERI_ASSIGN(v, w.make("pad", {v, behind}, {}, like));
    PERI_ASSIGN(v, w.reshape(v, with({n, n + Dim(1)}), like));
    PERI_ASSIGN(
        v, w.make("slice", {v, w.ints({0}, like->name), w.ints({1}, like->name), w.ints({-1}, like->name)}, {}, like));
    PERI_ASSIGN(v, w.reshape(v, with({n}), like));
    o = {v, rest + c};
  }
  return o;
}

// Without the axes that nothing else names, which are summed, and those of 1 that are more elsewhere.
Result<Operand> reduced(Rewriter& w, Operand o, const Equation& others, const ir::Value* like) {
  const auto named = [&](char c) {
    return has(others.result, c) || std::any_of(others.operands.begin(), others.operands.end(),
                                                [&](const Operand& p) { return has(p.term, c); });
  };
  std::vector<int64_t> axes;
  for (const char c : o.term)
    if (!named(c)) axes.push_back(static_cast<int64_t>(o.term.find(c)));
  if (!axes.empty()) {
    const std::string kept = those(o.term, named);
    PERI_ASSIGN(o.v, w.make("reduce_sum", {o.v, w.ints(axes, like->name)}, {{"keepdims", int64_t{0}}}, like));
    o.term = kept;
  }
  const auto is_broadcast = [&](char c) {
    return o.extent(c).is_const(1) &&
           std::any_of(others.operands.begin(), others.operands.end(),
                       [&](const Operand& p) { return has(p.term, c) && !p.extent(c).is_const(1); });
  };
  const std::string kept = those(o.term, [&](char c) { return !is_broadcast(c); });
  if (kept.size() == o.term.size()) return o;
  Shape to;
  for (const char c : kept) to.push_back(o.extent(c));
  PERI_ASSIGN(o.v, w.reshape(o.v, to, like));
  o.term = kept;
  return o;
}

// Axes in groups, each group one axis.
Shape grouped(const Operand& o, const std::string& batch, const std::string& first, const std::string& second) {
  Shape out;
  for (const char c : batch) out.push_back(o.extent(c));
  for (const std::string* group : {&first, &second}) {
    Dim d(1);
    for (const char c : *group) d = d * o.extent(c);
    out.push_back(d);
  }
  return out;
}

// What a matmul says of letters whose sizes may differ in a run.
ir::Attrs said(const Operand& a, const Operand& b, const std::string& equation) {
  const std::string open = those(a.term, [&](char c) { return has(b.term, c) && !(a.extent(c) == b.extent(c)); });
  return open.empty() ? ir::Attrs() : ir::Attrs{{"equation", equation}, {"letters", open}};
}

// The product of two, of which `wanted` are the axes that something else names, in the order that is best.
Result<Operand> product(Rewriter& w, const Operand& a, const Operand& b, const std::string& wanted,
                        const std::string& equation, const ir::Value* like) {
  const std::string batch = those(wanted, [&](char c) { return has(a.term, c) && has(b.term, c); }),
                    rows = those(wanted, [&](char c) { return has(a.term, c) && !has(b.term, c); }),
                    columns = those(wanted, [&](char c) { return !has(a.term, c) && has(b.term, c); }),
                    summed = those(a.term, [&](char c) { return has(b.term, c) && !has(wanted, c); });
  if (summed.empty() || (rows.empty() && columns.empty())) {  // element by element
    const std::string all = wanted + summed;
    PERI_ASSIGN(ir::Value * left, aligned(w, a, all));
    PERI_ASSIGN(ir::Value * right, aligned(w, b, all));
    PERI_ASSIGN(ir::Value * y, w.make("mul", {left, right}, {}, like));
    PERI_ASSIGN(y, sum_last(w, y, summed.size(), like));
    return Operand{y, wanted};
  }
  const std::string made = batch + rows + columns;
  Shape y_shape;
  for (const char c : made) {
    PERI_ASSIGN(const Shape one, ops::broadcast(has(a.term, c) ? Shape{a.extent(c)} : Shape(),
                                                has(b.term, c) ? Shape{b.extent(c)} : Shape()));
    y_shape.push_back(one[0]);
  }
  PERI_ASSIGN(ir::Value * left, arranged(w, a, batch + rows + summed));
  PERI_ASSIGN(ir::Value * right, arranged(w, b, batch + summed + columns));
  PERI_ASSIGN(left, w.reshape(left, grouped(a, batch, rows, summed), a.v));
  PERI_ASSIGN(right, w.reshape(right, grouped(b, batch, summed, columns), b.v));
  PERI_ASSIGN(ir::Value * y, w.make("matmul", {left, right}, said(a, b, equation), like));
  PERI_ASSIGN(y, w.reshape(y, y_shape, like));
  return Operand{y, made};
}

double multiplications(const Operand& a, const Operand& b) {
  double out = 1;
  for (const Operand* o : {&a, &b})
    for (const char c : o->term) {
      if (o == &b && has(a.term, c)) continue;
      const Dim& d = o->extent(c);
      out *= static_cast<double>(d.is_const() ? d.value() : kOpenExtent);
    }
  return out;
}

// The equation without its two operands of the cheapest product, which are the result.
std::pair<Operand, Operand> take_two(Equation* e) {
  size_t first = 0, second = 1;
  for (size_t i = 0; i < e->operands.size(); ++i)
    for (size_t k = i + 1; k < e->operands.size(); ++k)
      if (multiplications(e->operands[i], e->operands[k]) < multiplications(e->operands[first], e->operands[second])) {
        first = i;
        second = k;
      }
  std::pair<Operand, Operand> out{e->operands[first], e->operands[second]};
  e->operands.erase(e->operands.begin() + static_cast<std::ptrdiff_t>(second));
  e->operands.erase(e->operands.begin() + static_cast<std::ptrdiff_t>(first));
  return out;
}

Result<Operand> contracted(Rewriter& w, Equation e, const ir::Value* like) {
  while (e.operands.size() > 1) {
    const auto [one, other] = take_two(&e);
    Equation others = e;
    others.operands.push_back(other);
    PERI_ASSIGN(const Operand a, reduced(w, one, others, like));
    others.operands.back() = a;
    PERI_ASSIGN(const Operand b, reduced(w, other, others, like));
    std::string wanted = those(e.result, [&](char c) { return has(a.term, c) || has(b.term, c); });
    for (const std::string* term : {&a.term, &b.term})
      for (const char c : *term) {
        const bool named = std::any_of(e.operands.begin(), e.operands.end(), [&](auto& o) { return has(o.term, c); });
        if (named && !has(wanted, c)) wanted += c;
      }
    PERI_ASSIGN(Operand made, product(w, a, b, wanted, e.text, like));
    e.operands.push_back(std::move(made));
  }
  return e.operands.front();
}

Result<ir::Value*> opened(Rewriter& w, Equation e, const ir::Value* like) {
  for (Operand& o : e.operands) {
    PERI_ASSIGN(o, diagonal(w, o));
  }
  PERI_ASSIGN(Operand made, contracted(w, e, like));
  PERI_ASSIGN(made, reduced(w, std::move(made), {{}, e.result}, like));
  return arranged(w, made, e.result);
}
}  // namespace

Result<bool> open_einsum(Rewriter& w, ir::Node* n) {
  constexpr size_t kMaxTaken = 32;  // operands: pairs are compared for each product
  if (!multiplies(n->out()->type.dtype) || n->inputs.size() > kMaxTaken) return false;
  auto e = read(*n);
  if (!e || !agrees(*e)) return false;
  w.standing_for({n});
  auto y = opened(w, *std::move(e), n->out());
  if (!y.ok() && y.error().kind == ErrorKind::kRefused) return false;  // what was made of it has no readers
  if (!y.ok()) return std::move(y).error();
  if (*y == n->in(0)) return false;
  w.replace(n->out(), *y);
  return true;
}

namespace {
// The batch axes of a matmul by who has them: 'B' both, 'l' the left, 'r' the right side alone, nobody: not named. None
// where a size of one side may be 1 in a run and that of the other not.
std::optional<std::string> batch_owners(const Shape& a, const Shape& b) {
  std::string out;
  for (size_t k = 2; k < std::max(a.size(), b.size()); ++k) {  // the innermost first
    const Dim left = k < a.size() ? a[a.size() - 1 - k] : Dim(1), right = k < b.size() ? b[b.size() - 1 - k] : Dim(1);
    if (left.is_const(1) && right.is_const(1)) continue;
    if (!left.is_const(1) && !right.is_const(1) && !(left == right)) return std::nullopt;
    out += left.is_const(1) ? 'r' : right.is_const(1) ? 'l' : 'B';
  }
  return out;
}
}  // namespace

Result<bool> open_batches(Rewriter& w, ir::Node* n) {
  constexpr size_t kMaxGroups = 2, kMaxRank = 20;  // loops of a product over others, as kernels have them; of letters
  if (!multiplies(n->out()->type.dtype) || !n->in(0)->type.known() || !n->in(1)->type.known()) return false;
  const Shape &a = *n->in(0)->type.shape, &b = *n->in(1)->type.shape;
  const auto owners = batch_owners(a, b);
  if (a.size() < 2 || b.size() < 2 || !owners || std::max(a.size(), b.size()) > kMaxRank) return false;
  size_t groups = 0;
  for (size_t k = 0; k < owners->size(); ++k) groups += k == 0 || (*owners)[k] != (*owners)[k - 1];
  if (groups <= kMaxGroups) return false;
  std::string batch;
  for (size_t k = n->out()->type.rank() - 2; k-- > 0;) batch += static_cast<char>('A' + k);
  const auto last = [&](size_t axes) { return batch.substr(batch.size() - axes); };
  Equation e;
  e.operands = {{n->in(0), last(a.size() - 2) + "mk"}, {n->in(1), last(b.size() - 2) + "kn"}};
  e.result = batch + "mn";
  w.standing_for({n});
  auto y = opened(w, std::move(e), n->out());
  if (!y.ok() && y.error().kind == ErrorKind::kRefused) return false;
  if (!y.ok()) return std::move(y).error();
  w.replace(n->out(), *y);
  return true;
}

}  // namespace peri::passes
