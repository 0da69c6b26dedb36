// Text form of types and graphs: parsing, with limits on everything that an untrusted text could make large.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "base/rng.hpp"
#include "ir/bodies.hpp"
#include "ir/graph.hpp"
#include "ir/text.hpp"
#include "ir/text_reader.hpp"

namespace peri::ir {

namespace {
constexpr int kMaxDepth = 16;
constexpr size_t kMaxText = size_t{1} << 28;
constexpr int64_t kMaxMadeElements = int64_t{1} << 26;  // by splat() and seeded()

class Parser : public TextReader {
 public:
  Parser(std::string_view text, const WeightResolver& weights) : TextReader(text), weights_(weights) {}

  Result<Graph> graph(int depth) {
    if (depth > kMaxDepth) return fail("graphs are nested too deep");
    if (!word("graph")) return fail("expected 'graph'");
    Graph g;
    if (peek() == '"') {
      PERI_ASSIGN(g.name, string());
    }
    if (!take('{')) return fail("expected '{'");
    std::unordered_set<std::string> taken;
    while (!take('}')) {
      if (at_ >= text_.size()) return fail("unexpected end of text");
      PERI_TRY(statement(g, depth, &taken));
      if (!take(';') && peek() != '}') return fail("expected ';'");
    }
    return g;
  }
  Result<Type> type() {
    PERI_ASSIGN(const std::string dtype_word, identifier());
    Type t;
    PERI_ASSIGN(t.dtype, parse_dtype(dtype_word));
    skip();
    const size_t close = matching_bracket();
    if (close == std::string_view::npos) return fail("expected a shape");
    const std::string_view shape = text_.substr(at_, close + 1 - at_);
    at_ = close + 1;
    if (shape != "[?]") {
      PERI_ASSIGN(t.shape, parse_shape(shape));
      if (t.shape->size() > 32) return fail("rank above 32");
    }
    if (at_ < text_.size() && text_[at_] == '@') PERI_TRY(layout(&t));
    return t;
  }

 private:
  size_t matching_bracket() const {
    if (at_ >= text_.size() || text_[at_] != '[') return std::string_view::npos;
    size_t end = text_.find_first_of("]`", at_);
    while (end != std::string_view::npos && text_[end] == '`') {  // a name in it, which may hold brackets
      end = text_.find('`', end + 1);
      if (end != std::string_view::npos) end = text_.find_first_of("]`", end + 1);
    }
    return end;
  }
  Status layout(Type* t) {
    ++at_;
    while (at_ < text_.size() && isalnum(static_cast<unsigned char>(text_[at_]))) {
      const char c = text_[at_++];
      t->layout.order.push_back(static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10));
    }
    if (take(':')) {
      PERI_ASSIGN(const int64_t axis, integer_until('x'));
      PERI_ASSIGN(const int64_t block, integer());
      if (axis < 0 || axis > 31 || block < 1 || block > 1024) return fail("bad layout block");
      t->layout.block_axis = static_cast<int>(axis);
      t->layout.block = static_cast<int>(block);
    }
    if (!t->shape) return fail("a layout needs a rank");
    std::vector<bool> seen(t->shape->size());
    for (uint8_t axis : t->layout.order) {
      if (axis >= seen.size() || seen[axis]) return fail("bad layout order");
      seen[axis] = true;
    }
    if (t->layout.order.size() != seen.size() || t->layout.block_axis >= static_cast<int>(seen.size()))
      return fail("bad layout order");
    return Ok{};
  }
  Result<int64_t> integer_until(char stop) {
    int64_t v = 0;
    auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (code != std::errc()) return fail("expected an integer");
    at_ = static_cast<size_t>(end - text_.data());
    if (!take(stop)) return fail("bad layout block");
    return v;
  }

  static bool complex(DType t) { return t == DType::kC64 || t == DType::kC128; }

  Result<Tensor> elements(const Type& type) {
    if (!type.known() || !is_const(*type.shape)) return fail("a constant needs a concrete type");
    if (complex(type.dtype)) return fail("complex constants have no text form");
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*type.shape, {}));
    PERI_ASSIGN(const int64_t n, checked_numel(dims));
    if (!take('[')) return fail("expected '['");
    if (static_cast<uint64_t>(n) > text_.size()) return fail("fewer elements than the shape says");
    PERI_ASSIGN(Tensor t, Tensor::zeros(type.dtype, dims));
    for (int64_t k = 0; k < n; ++k) {
      if (k && !take(',')) return fail("expected ',' (fewer elements than the shape says)");
      if (type.dtype == DType::kString) {
        PERI_ASSIGN(t.mutable_strings()[static_cast<size_t>(k)], string());
        continue;
      }
      bool is_int = false;
      int64_t v = 0;
      PERI_ASSIGN(const double d, number(&is_int, &v));
      if (is_float(type.dtype))
        t.set_f64(k, d);
      else if (is_int)
        t.set_i64(k, v);
      else
        return fail("expected an integer");
    }
    if (!take(']')) return fail("expected ']' (more elements than the shape says)");
    return t;
  }

  Result<Tensor> constant(const Type& type) {
    if (peek() == '[') return elements(type);
    if (!type.known() || !is_const(*type.shape)) return fail("a constant needs a concrete type");
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*type.shape, {}));
    PERI_ASSIGN(const int64_t n, checked_numel(dims));
    const bool splat = word("splat"), seeded = !splat && word("seeded");
    if (splat || seeded) {
      if (complex(type.dtype)) return fail("complex constants have no text form");
      if (n > kMaxMadeElements || type.dtype == DType::kString) return fail("too many elements for a made constant");
      if (!take('(')) return fail("expected '('");
      bool is_int = false;
      int64_t v = 0, seed = 0;
      PERI_ASSIGN(const double d, number(&is_int, &v));
      if (seeded) {
        if (!take(',')) return fail("expected ','");
        PERI_ASSIGN(seed, integer());
      }
      if (!take(')')) return fail("expected ')'");
      PERI_ASSIGN(Tensor t, Tensor::zeros(type.dtype, dims));
      Rng rng(static_cast<uint64_t>(seed));
      for (int64_t k = 0; k < n; ++k) {
        const double x = seeded ? rng.normal() * d : d;
        if (is_float(type.dtype))
          t.set_f64(k, x);
        else
          t.set_i64(k, static_cast<int64_t>(std::clamp(x, -9e18, 9e18)));
      }
      return t;
    }
    if (!word("data") || !take('('))
      return fail("expected [elements], splat(v), seeded(std, seed) or data(name, hash)");
    PERI_ASSIGN(const std::string weight, string());
    if (!take(',')) return fail("expected ','");
    PERI_ASSIGN(const std::string digits, identifier());
    uint64_t hash = 0;
    const char* const stop = digits.data() + digits.size();
    if (const auto [end, code] = std::from_chars(digits.data(), stop, hash, 16); code != std::errc() || end != stop)
      return fail("bad hash");
    if (!take(')')) return fail("expected ')'");
    std::optional<Tensor> found = weights_ ? weights_(weight, hash) : std::nullopt;
    if (!found) return fail("the constant's data is not at hand");
    if (found->dtype() != type.dtype || found->dims() != dims) return fail("the constant's data has another type");
    return *std::move(found);
  }

  template <class T, class F>
  Result<Attr> list(F each) {
    std::vector<T> out;
    if (!take('[')) return fail("expected '['");
    while (!take(']')) {
      if (!out.empty() && !take(',')) return fail("expected ','");
      PERI_ASSIGN(T item, each());
      out.push_back(std::move(item));
    }
    return Attr(std::move(out));
  }
  Result<Attr> number_list() {
    std::vector<int64_t> ints;
    std::vector<double> floats;
    bool all_int = true;
    if (!take('[')) return fail("expected '['");
    if (peek() == '"') {
      --at_;
      return list<std::string>([&] { return string(); });
    }
    while (!take(']')) {
      if (!floats.empty() && !take(',')) return fail("expected ','");
      bool is_int = false;
      int64_t v = 0;
      PERI_ASSIGN(const double d, number(&is_int, &v));
      all_int &= is_int;
      ints.push_back(v);
      floats.push_back(d);
    }
    if (all_int) return Attr(std::move(ints));
    return Attr(std::move(floats));
  }
  Result<Attr> attribute(int depth) {
    const char c = peek();
    if (c == '"') {
      PERI_ASSIGN(std::string s, string());
      return Attr(std::move(s));
    }
    if (c == '[') return number_list();
    if (word("ints")) return list<int64_t>([&] { return integer(); });
    if (word("floats"))
      return list<double>([&]() -> Result<double> { return fail("write [..] for a list with elements"); });
    if (word("strings")) return list<std::string>([&] { return string(); });
    if (word("graphs"))
      return list<std::shared_ptr<Graph>>([&]() -> Result<std::shared_ptr<Graph>> {
        PERI_ASSIGN(Graph g, graph(depth + 1));
        return std::make_shared<Graph>(std::move(g));
      });
    if (word("dims")) {
      skip();
      const size_t close = matching_bracket();
      if (close == std::string_view::npos) return fail("expected '['");
      PERI_ASSIGN(Shape s, parse_shape(text_.substr(at_, close + 1 - at_)));
      at_ = close + 1;
      return Attr(std::move(s));
    }
    if (word("tensor")) {
      PERI_ASSIGN(const Type t, type());
      PERI_ASSIGN(Tensor value, elements(t));
      return Attr(std::move(value));
    }
    if (text_.substr(at_, 5) == "graph") {
      PERI_ASSIGN(Graph g, graph(depth + 1));
      return Attr(std::make_shared<Graph>(std::move(g)));
    }
    bool is_int = false;
    int64_t v = 0;
    PERI_ASSIGN(const double d, number(&is_int, &v));
    if (is_int) return Attr(v);
    return Attr(d);
  }

  // `taken`: the names of the outputs so far.
  Status statement(Graph& g, int depth, std::unordered_set<std::string>* taken) {
    if (word("input")) {
      PERI_ASSIGN(const std::string n, name());
      if (g.find(n)) return fail("a name is defined twice");
      if (!take(':')) return fail("expected ': type'");
      PERI_ASSIGN(Type t, type());
      g.add_input(n, std::move(t));
      return Ok{};
    }
    if (word("const")) {
      PERI_ASSIGN(const std::string n, name());
      if (g.find(n)) return fail("a name is defined twice");
      if (!take(':')) return fail("expected ': type'");
      PERI_ASSIGN(const Type t, type());
      if (!take('=')) return fail("expected '='");
      PERI_ASSIGN(Tensor value, constant(t));
      g.add_constant(n, std::move(value))->type.layout = t.layout;
      return Ok{};
    }
    if (word("output")) {
      PERI_ASSIGN(const std::string n, name());
      Value* v = g.find(n);
      if (!v) return fail("an output has no source");
      std::string interface_name;
      if (word("as")) {
        PERI_ASSIGN(interface_name, string());
        if (!taken->insert(interface_name).second) return fail("an output's name is given twice");
      } else {
        interface_name = unique_name(n, taken);  // one value may be two outputs
      }
      g.mark_output(v, interface_name);
      return Ok{};
    }
    return node(g, depth);
  }

  Status node(Graph& g, int depth) {
    std::vector<std::pair<std::string, Type>> outs;
    do {
      std::pair<std::string, Type> o;
      PERI_ASSIGN(o.first, name());
      if (g.find(o.first)) return fail("a name is defined twice");
      if (take(':')) {
        PERI_ASSIGN(o.second, type());
      }
      outs.push_back(std::move(o));
    } while (take(','));
    if (!take('=')) return fail("expected '='");
    PERI_ASSIGN(const std::string op, identifier());
    if (!take('(')) return fail("expected '('");
    std::vector<Value*> ins;
    while (!take(')')) {
      if (!ins.empty() && !take(',')) return fail("expected ','");
      if (word("_")) {
        ins.push_back(nullptr);
        continue;
      }
      PERI_ASSIGN(const std::string n, name());
      ins.push_back(g.find(n));
      if (!ins.back()) return fail("an input is not defined before its use");
    }
    Attrs attrs;
    if (take('{')) {
      while (!take('}')) {
        if (!attrs.empty() && !take(',')) return fail("expected ','");
        PERI_ASSIGN(const std::string key, identifier());
        if (!take('=')) return fail("expected '='");
        PERI_ASSIGN(Attr value, attribute(depth));
        if (!attrs.emplace(key, std::move(value)).second) return fail("an attribute stands twice");
      }
    }
    Node* n = g.add(op, ins, std::move(attrs), "", 0);
    for (auto& [out_name, t] : outs) {
      if (g.find(out_name)) return fail("a name is defined twice");
      g.add_output_value(n, out_name)->type = std::move(t);
    }
    if (peek() == '"') {
      PERI_ASSIGN(n->name, string());
    }
    if (word("from")) {
      PERI_ASSIGN(Attr origins, list<std::string>([&] { return string(); }));
      n->origins = std::get<std::vector<std::string>>(origins);
    }
    return Ok{};
  }

  const WeightResolver& weights_;
};
}  // namespace

Result<Type> parse_type(std::string_view text) {
  const WeightResolver none;
  Parser p(text, none);
  PERI_ASSIGN(Type t, p.type());
  if (!p.finished()) return p.fail("trailing text");
  return t;
}

Result<Graph> parse_graph(std::string_view text, const WeightResolver& weights) {
  if (text.size() > kMaxText) return invalid("IR text beyond %zu bytes", kMaxText);
  Parser p(text, weights);
  PERI_ASSIGN(Graph g, p.graph(0));
  if (!p.finished()) return p.fail("trailing text");
  return g;
}

}  // namespace peri::ir
