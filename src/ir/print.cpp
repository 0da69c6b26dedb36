// Text form of types and graphs: printing.
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "base/hash.hpp"
#include "base/tensor_work.hpp"
#include "ir/graph.hpp"
#include "ir/text.hpp"

namespace peri::ir {

std::string type_text(const Type& type) {
  std::string out(dtype_name(type.dtype));
  out += type.shape ? shape_text(*type.shape) : "[?]";
  if (!type.layout.row_major()) {
    out += '@';
    for (uint8_t axis : type.layout.order) out += static_cast<char>(axis < 10 ? '0' + axis : 'a' + axis - 10);
    if (type.layout.block_axis >= 0)
      out += ":" + std::to_string(type.layout.block_axis) + "x" + std::to_string(type.layout.block);
  }
  return out;
}

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (unsigned char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20 || c == 0x7f)
      out += format("\\x%02x", c);
    else
      out += static_cast<char>(c);
  }
  return out + "\"";
}

std::string number_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char text[40];
  auto [end, code] = std::to_chars(text, text + sizeof text, v);
  std::string out(text, end);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string name_text(std::string_view name) {
  bool plain = !name.empty() && !(name[0] >= '0' && name[0] <= '9') && name != "_" && name != "input" &&
               name != "const" && name != "output";
  for (char c : name)
    plain = plain && (isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' || c == ':') &&
            !(c == ':');
  return plain ? std::string(name) : quoted(name);
}

namespace {
std::string elements_text(const Tensor& t) {
  std::string out = "[";
  for (int64_t k = 0; k < t.numel(); ++k) {
    if (k) out += ", ";
    if (t.dtype() == DType::kString)
      out += quoted(t.string_values()[static_cast<size_t>(k)]);
    else if (is_float(t.dtype()))
      out += number_text(t.f64(k));
    else if (t.dtype() == DType::kU64)
      out += std::to_string(static_cast<uint64_t>(t.i64(k)));
    else
      out += std::to_string(t.i64(k));
  }
  return out + "]";
}

bool inlined(const Tensor& t, int64_t limit) {
  return t.dtype() == DType::kString || (t.numel() <= limit && t.dtype() != DType::kC64 && t.dtype() != DType::kC128);
}

template <class T, class F>
std::string list_text(std::string_view tag, const std::vector<T>& items, F each) {
  std::string out = (items.empty() ? std::string(tag) : "") + "[";
  for (size_t k = 0; k < items.size(); ++k) out += (k ? ", " : "") + each(items[k]);
  return out + "]";
}

std::string attr_text(const Attr& a, const PrintOptions& options) {
  struct Visitor {
    const PrintOptions& options;
    std::string operator()(int64_t v) { return std::to_string(v); }
    std::string operator()(double v) { return number_text(v); }
    std::string operator()(const std::string& v) { return quoted(v); }
    std::string operator()(const std::vector<int64_t>& v) {
      return list_text("ints", v, [](int64_t x) { return std::to_string(x); });
    }
    std::string operator()(const std::vector<double>& v) { return list_text("floats", v, number_text); }
    std::string operator()(const std::vector<std::string>& v) {
      return list_text("strings", v, [](const std::string& s) { return quoted(s); });
    }
    std::string operator()(const std::vector<Dim>& v) { return "dims" + shape_text(v); }
    std::string operator()(const Tensor& t) {
      PERI_CHECK(t.dtype() != DType::kC64 && t.dtype() != DType::kC128, "a complex attribute has no text form");
      return "tensor " + tensor_type_text(t) + " " + elements_text(t);
    }
    std::string operator()(const std::shared_ptr<Graph>& g) { return print(*g, options); }
    std::string operator()(const std::vector<std::shared_ptr<Graph>>& v) {
      return list_text("graphs", v, [&](const std::shared_ptr<Graph>& g) { return print(*g, options); });
    }
  };
  return std::visit(Visitor{options}, a);
}

std::string node_text(const Node& n, const PrintOptions& options) {
  std::string out = "  ";
  for (size_t k = 0; k < n.outputs.size(); ++k) {
    const Value& v = *n.outputs[k];
    out += (k ? ", " : "") + name_text(v.name);
    if (v.type.dtype != DType::kInvalid) out += ": " + type_text(v.type);
  }
  out += " = " + n.op + "(";
  for (size_t k = 0; k < n.inputs.size(); ++k)
    out += (k ? ", " : "") + (n.inputs[k] ? name_text(n.inputs[k]->name) : std::string("_"));
  out += ")";
  if (!n.attrs.empty()) {
    out += " {";
    bool first = true;
    for (const auto& [key, attr] : n.attrs) {
      out += (first ? "" : ", ") + key + "=" + attr_text(attr, options);
      first = false;
    }
    out += "}";
  }
  if (!n.name.empty()) out += " " + quoted(n.name);
  if (options.origins && !n.origins.empty())
    out += " from " + list_text("strings", n.origins, [](const std::string& s) { return quoted(s); });
  return out + ";\n";
}
}  // namespace

std::string print(const Graph& g, const PrintOptions& options) {
  std::string out = "graph " + (g.name.empty() ? std::string() : quoted(g.name) + " ") + "{\n";
  for (const Value* v : g.inputs) out += "  input " + name_text(v->name) + ": " + type_text(v->type) + ";\n";
  std::vector<const Tensor*> named;  // those that stand by their hash
  for (const auto& v : g.values())
    if (v->constant && !inlined(*v->constant, options.inline_limit)) named.push_back(&*v->constant);
  const std::vector<uint64_t> hashes = content_hashes(named);
  auto hash = hashes.begin();
  for (const auto& v : g.values()) {
    if (!v->constant) continue;
    const Tensor& t = *v->constant;
    out += "  const " + name_text(v->name) + ": " + type_text(v->type) + " = ";
    out +=
        inlined(t, options.inline_limit) ? elements_text(t) : "data(" + quoted(v->name) + ", " + hex64(*hash++) + ")";
    out += ";\n";
  }
  for (const Node* n : g.nodes) out += node_text(*n, options);
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    out += "  output " + name_text(g.outputs[k]->name);
    if (g.output_names[k] != g.outputs[k]->name) out += " as " + quoted(g.output_names[k]);
    out += ";\n";
  }
  return out + "}\n";
}

bool equal(const Graph& a, const Graph& b) {
  auto canonical = [](const Graph& g) {
    Graph c = g.clone();
    if (!c.sort().ok()) return std::string();
    int k = 0;
    for (Value* v : c.inputs) c.rename(v, "#i" + std::to_string(k++));
    for (Node* n : c.nodes) {
      n->name.clear();
      for (Value* v : n->inputs)
        if (v && v->constant && !v->name.starts_with("#c")) c.rename(v, "#c" + std::to_string(k++));
      for (Value* v : n->outputs) c.rename(v, "#v" + std::to_string(k++));
    }
    std::string text;
    c.name.clear();
    for (Value* v : c.inputs) text += v->name + type_text(v->type);
    for (Value* v : c.constants()) {
      if (!v->name.starts_with("#c") && c.is_output(v)) c.rename(v, "#c" + std::to_string(k++));
    }
    std::map<std::string, std::string> constants;
    for (Value* v : c.constants()) constants[v->name] = type_text(v->type) + hex64(v->constant->content_hash());
    for (auto& [name, what] : constants) text += name + what + "\n";
    for (const Node* n : c.nodes) text += node_text(*n, {16, false});
    for (size_t j = 0; j < c.outputs.size(); ++j) text += c.outputs[j]->name + "=" + c.output_names[j] + "\n";
    return text;
  };
  return canonical(a) == canonical(b);
}

}  // namespace peri::ir
