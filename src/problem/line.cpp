// The line as words: the anchor with its arguments by port, its attributes, and a word for each step behind it.
#include "problem/line.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "ir/text.hpp"
#include "ops/entry.hpp"

namespace peri::problem {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t k = 0; k <= text.size(); ++k) {
    const char c = k < text.size() ? text[k] : ' ';
    if (quoted && c == '\\') {
      ++k;
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (quoted && k < text.size()) continue;
    depth += (c == '[' || c == '(' || c == '{') - (c == ']' || c == ')' || c == '}');
    if ((c != ' ' && c != '\n') || (depth > 0 && k < text.size())) continue;
    if (k > begin) out.push_back(text.substr(begin, k - begin));
    begin = k + 1;
  }
  return out;
}

std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> out;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t k = 0; k < list.size(); ++k) {
    const char c = list[k];
    if (quoted && c == '\\') {
      ++k;
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    depth += (c == '[' || c == '(' || c == '{') - (c == ']' || c == ')' || c == '}');
    if (c != ',' || depth > 0) continue;
    out.push_back(list.substr(begin, k - begin));
    begin = k + 1;
  }
  if (begin < list.size()) out.push_back(list.substr(begin));
  return out;
}

namespace {
const ops::Port* port_of(const ops::OpDef& op, std::string_view name, size_t* index) {
  for (size_t k = 0; k < op.inputs.size(); ++k)
    if (op.inputs[k].name == name) {
      *index = k;
      return &op.inputs[k];
    }
  return nullptr;
}

size_t required_inputs(const ops::OpDef& op) {
  return static_cast<size_t>(
      std::count_if(op.inputs.begin(), op.inputs.end(), [](const ops::Port& p) { return !p.optional; }));
}

bool channels_second(const ir::Node& anchor) { return ops::is(anchor, &ops::OpDef::channels_second); }

// One value for each channel of what the anchor made: "+bias".
ir::Type bias_type(const ir::Node& anchor, const ir::Type& of) {
  const size_t channel = channels_second(anchor) ? 1 : of.rank() - 1;
  Shape shape(of.rank() - channel, Dim(1));
  shape[0] = (*of.shape)[channel];
  return {of.dtype, shape};
}
bool can_have_bias(const ir::Type& t, const ir::Node& anchor) { return t.rank() > (channels_second(anchor) ? 1u : 0u); }
}  // namespace

std::string facts_text(const ir::Graph& graph, const std::vector<bool>& weights, const std::vector<bool>& expected) {
  std::string out;
  if (weights != expected) {
    for (size_t k = 0; k < weights.size(); ++k)
      if (weights[k]) out += (out.empty() ? "" : ",") + graph.inputs[k]->name;
    out = " weights=" + (out.empty() ? "none" : out);
  }
  return out;
}

Result<bool> take_fact(std::string_view word, const ir::Graph& graph, Problem* p) {
  if (!word.starts_with("weights=")) return false;
  p->weights.assign(graph.inputs.size(), false);
  if (word == "weights=none") return true;
  for (const std::string_view name : parts_of(word.substr(8))) {
    const auto at = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](auto* v) { return v->name == name; });
    if (at == graph.inputs.end()) return invalid("no input '%s' to be a weight", std::string(name).c_str());
    p->weights[static_cast<size_t>(at - graph.inputs.begin())] = true;
  }
  return true;
}

namespace {
struct Writer {
  const ir::Graph& graph;
  const std::vector<bool>& weights;
  std::vector<bool> expected;  // what a reader takes for weights
  size_t next_input = 0;
  std::vector<const ir::Value*> constants = {};  // that stand in the line already
  bool sayable = true;

  std::string fail() {
    sayable = false;
    return "";
  }

  std::string constant(const ir::Value& v) {
    const Tensor& t = *v.constant;
    if (t.numel() > 16 || t.dtype() == DType::kString || t.dtype() == DType::kC64 || t.dtype() == DType::kC128)
      return fail();
    std::string out = type_text(v.type) + ":[";
    for (int64_t k = 0; k < t.numel(); ++k) {
      if (k) out += ",";
      if (is_float(t.dtype()))
        out += ir::number_text(t.f64(k));
      else
        out += t.dtype() == DType::kU64 ? std::to_string(static_cast<uint64_t>(t.i64(k))) : std::to_string(t.i64(k));
    }
    return out + "]";
  }

  std::string argument(const ir::Value* v, const ir::Value* previous) {
    if (!v) return "_";
    if (v == previous) return "^";
    if (v->is_input && next_input < graph.inputs.size() && graph.inputs[next_input] == v) {
      ++next_input;
      return v->content ? fail() : type_text(v->type);
    }
    if (v->constant && std::find(constants.begin(), constants.end(), v) == constants.end()) {
      constants.push_back(v);
      return constant(*v);
    }
    return v->name;
  }

  std::string attribute(const ir::Attr& a, bool in_list) {
    if (const auto* v = std::get_if<int64_t>(&a)) return std::to_string(*v);
    if (const auto* v = std::get_if<double>(&a)) return ir::number_text(*v);
    if (const auto* v = std::get_if<std::string>(&a)) return ir::quoted(*v);
    const auto* list = std::get_if<std::vector<int64_t>>(&a);
    if (!list) return fail();
    std::string out;
    for (int64_t v : *list) out += (out.empty() ? "" : ",") + std::to_string(v);
    if (list->empty()) return "ints[]";
    return in_list || list->size() == 1 ? "[" + out + "]" : out;
  }

  std::string anchor(const ir::Node& n) {
    const ops::OpDef* op = ops::find(n.op);
    if (!op || n.outputs.size() != 1) return fail();
    std::string out = n.op;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (k >= op->inputs.size() || op->inputs[k].variadic) return fail();
      if (n.inputs[k]) out += " " + std::string(op->inputs[k].name) + "=" + argument(n.inputs[k], nullptr);
    }
    for (const auto& [key, attr] : n.attrs) out += " " + key + "=" + attribute(attr, false);
    return out;
  }

  std::string step(const ir::Node& n, const ir::Value* previous) {
    const ops::OpDef* op = ops::find(n.op);
    if (!op || n.outputs.size() != 1) return fail();
    std::string attrs;
    for (const auto& [key, attr] : n.attrs) attrs += (attrs.empty() ? "" : ",") + key + "=" + attribute(attr, true);
    if (!attrs.empty()) attrs = "{" + attrs + "}";
    const size_t inputs = n.inputs.size(), required = required_inputs(*op);
    if (inputs == 1 && n.in(0) == previous && required == 1) return " +" + n.op + attrs;
    const ir::Value* other = inputs == 2 && n.in(0) == previous ? n.in(1) : nullptr;
    const bool fresh = other && other->is_input && !other->content && next_input < graph.inputs.size() &&
                       graph.inputs[next_input] == other;
    if (fresh && required == 2 && attrs.empty()) {
      if (other->type == previous->type) {
        ++next_input;
        return " +" + n.op;
      }
      // By name: a word of the line's grammar, which stands for an add of one value for each channel.
      if (n.op == "add" && weights[next_input] && can_have_bias(previous->type, *graph.nodes[0]) &&
          other->type == bias_type(*graph.nodes[0], previous->type)) {
        expected[next_input++] = true;
        return " +bias";
      }
    }
    std::string out;
    for (const ir::Value* v : n.inputs) out += (out.empty() ? "(" : ",") + argument(v, previous);
    return " +" + n.op + out + (out.empty() ? "(" : "") + ")" + attrs;
  }
};
}  // namespace

std::optional<std::string> line_of(const ir::Graph& graph, const std::vector<bool>& weights) {
  if (graph.nodes.empty() || graph.outputs.size() != 1 || weights.size() != graph.inputs.size()) return std::nullopt;
  for (const ir::Node* n : graph.nodes)
    if (ops::states_sizes(*n) || ops::changes_layout(*n)) return std::nullopt;
  if (graph.outputs[0] != graph.nodes.back()->out()) return std::nullopt;
  Writer w{graph, weights, weights_by_role(graph)};
  std::string out = w.anchor(*graph.nodes[0]);
  for (size_t k = 1; k < graph.nodes.size() && w.sayable; ++k)
    out += w.step(*graph.nodes[k], graph.nodes[k - 1]->out());
  if (!w.sayable) return std::nullopt;
  out += facts_text(graph, weights, w.expected);
  // What it says is what a reader of it understands.
  const auto again = parse_line(out);
  if (!again.ok() || identity(again->graph, again->weights) != identity(graph, weights)) return std::nullopt;
  return out;
}

namespace {
// A node as the line has it.
struct Said {
  std::string op;
  std::vector<std::string> arguments = {};
  std::string attributes = {};  // as in IR text, without braces
};

struct Reader {
  Problem p = {};
  std::vector<Said> nodes = {};
  std::vector<std::string_view> facts = {};
  std::vector<size_t> biases = {};  // inputs
  size_t inputs = 0, named = 0;

  // "+op", "+op(arguments)", "+op(arguments){attributes}", "+op{attributes}"
  Result<Said> step(std::string_view word) const {
    Said said;
    const size_t open = word.find_first_of("({");
    said.op = word.substr(1, open == std::string_view::npos ? open : open - 1);
    std::string_view rest = open == std::string_view::npos ? "" : word.substr(open);
    if (rest.starts_with("(")) {
      int depth = 0;
      size_t close = 0;
      for (; close < rest.size(); ++close) {
        depth += (rest[close] == '(') - (rest[close] == ')');
        if (depth == 0) break;
      }
      if (close == rest.size()) return invalid("'%s' is not closed", std::string(word).c_str());
      for (std::string_view a : parts_of(rest.substr(1, close - 1))) said.arguments.emplace_back(a);
      rest.remove_prefix(close + 1);
    } else if (said.op == "bias") {  // By name: the grammar's word, no operator
      said = {"add", {"^", "+bias"}};
    } else {
      const ops::OpDef* op = ops::find(said.op);
      if (!op) return invalid("no op '%s'", said.op.c_str());
      said.arguments = {"^"};
      for (size_t k = 1; k < required_inputs(*op); ++k) said.arguments.emplace_back("+");
    }
    if (rest.empty()) return said;
    if (!rest.starts_with("{") || !rest.ends_with("}"))
      return invalid("a step is not understood").expecting("+OP(ARGUMENTS){ATTRIBUTES}").but_found(std::string(word));
    said.attributes = rest.substr(1, rest.size() - 2);
    return said;
  }

  Status words(std::string_view line) {
    const std::vector<std::string_view> all = words_of(line);
    if (all.empty()) return invalid("an empty problem");
    const ops::OpDef* op = ops::find(all[0]);
    if (!op) return invalid("no op '%s'", std::string(all[0].substr(0, 80)).c_str());
    nodes.push_back({std::string(all[0])});
    for (size_t k = 1; k < all.size(); ++k) {
      const std::string_view word = all[k];
      if (word.starts_with("+")) {
        PERI_ASSIGN(Said said, step(word));
        nodes.push_back(std::move(said));
        continue;
      }
      const size_t equals = word.find('=');
      if (equals == std::string_view::npos || nodes.size() > 1) {
        if (equals == std::string_view::npos) return invalid("'%s' is not an argument", std::string(word).c_str());
        facts.push_back(word);
        continue;
      }
      const std::string_view key = word.substr(0, equals), value = word.substr(equals + 1);
      size_t port = 0;
      if (port_of(*op, key, &port)) {
        auto& arguments = nodes[0].arguments;
        while (arguments.size() < port) arguments.emplace_back("_");
        if (arguments.size() != port) return invalid("argument '%s' is out of order", std::string(key).c_str());
        arguments.emplace_back(value);
      } else if (std::any_of(op->attrs.begin(), op->attrs.end(), [&](const auto& a) { return a.name == key; })) {
        const bool list = parts_of(value).size() > 1;
        nodes[0].attributes += (nodes[0].attributes.empty() ? "" : ", ") + std::string(key) + "=" + (list ? "[" : "") +
                               std::string(value) + (list ? "]" : "");
      } else {
        facts.push_back(word);
      }
    }
    return Ok{};
  }

  static bool is_type(std::string_view a) {
    return a.find('[') != std::string_view::npos && a.find(":[") == std::string_view::npos;
  }

  Result<ir::Value*> argument(const std::string& a, ir::Value* previous) {
    ir::Graph& g = p.graph;
    if (a == "_") return nullptr;
    if (a == "^" || a == "+" || a == "+bias") {
      if (!previous) return invalid("nothing stands before the first op");
      if (a == "^") return previous;
      if (a == "+bias" && !can_have_bias(previous->type, *g.nodes[0])) return invalid("a bias of a scalar");
      if (a == "+bias") biases.push_back(g.inputs.size());
      const ir::Type t = a == "+" ? previous->type : bias_type(*g.nodes[0], previous->type);
      return g.add_input("x" + std::to_string(g.inputs.size()), t);
    }
    if (is_type(a)) {
      PERI_ASSIGN(ir::Type t, ir::parse_type(a));
      return g.add_input("x" + std::to_string(g.inputs.size()), std::move(t));
    }
    if (const size_t colon = a.find(":["); colon != std::string::npos) {
      PERI_ASSIGN(const ir::Graph one, ir::parse_graph("graph { const c: " + a.substr(0, colon) + " = " +
                                                       a.substr(colon + 1) + "; output c }"));
      return g.add_constant("c" + std::to_string(named++), *one.outputs[0]->constant);
    }
    ir::Value* v = g.find(a);
    if (!v) return invalid("no value '%s' stands before", a.c_str());
    return v;
  }

  Status add(const Said& said, int64_t* fresh) {
    ir::Graph& g = p.graph;
    ir::Value* previous = g.nodes.empty() ? nullptr : g.nodes.back()->out();
    std::vector<ir::Value*> in;
    for (const std::string& a : said.arguments) {
      PERI_ASSIGN(ir::Value * v, argument(a, previous));
      in.push_back(v);
    }
    ir::Attrs attrs;
    if (!said.attributes.empty()) {
      PERI_ASSIGN(const ir::Graph one, ir::parse_graph("graph { a = b() {" + said.attributes + "}; output a }"));
      attrs = one.nodes[0]->attrs;
    }
    ir::Node* n = g.add(said.op, in, std::move(attrs), "t" + std::to_string(named++));
    n->name = said.op;  // for an error
    PERI_TRY(ops::infer_node(*n, fresh));
    n->name.clear();
    return Ok{};
  }

  Result<Problem> read(std::string_view line) {
    PERI_TRY(words(line));
    for (const Said& s : nodes)
      for (const std::string& a : s.arguments) inputs += is_type(a) || a == "+" || a == "+bias";
    named = inputs;
    int64_t fresh = 0;
    for (const Said& s : nodes) PERI_TRY(add(s, &fresh));
    p.graph.mark_output(p.graph.nodes.back()->out(), p.graph.nodes.back()->out()->name);
    p.weights = weights_by_role(p.graph);
    for (size_t k : biases) p.weights[k] = true;
    for (const std::string_view word : facts) {
      PERI_ASSIGN(const bool taken, take_fact(word, p.graph, &p));
      if (!taken) return invalid("a word of the problem is not understood").but_found(std::string(word));
    }
    return std::move(p);
  }
};
}  // namespace

Result<Problem> parse_line(std::string_view line) {
  if (line.size() > (size_t{1} << 20)) return invalid("a line of %zu bytes", line.size());
  return Reader().read(line);
}

}  // namespace peri::problem
