// Names by the buffers of a step and by the nodes that it stems from.
#include "exec/region/model_names.hpp"

#include <algorithm>
#include <cctype>

#include "ops/entry.hpp"

namespace peri::exec {

namespace {
constexpr size_t kMaxNames = 4;  // in one message

// Passes name what they make v12: no name of the model.
bool made_up(std::string_view name) {
  return name.empty() || (name.size() > 1 && name[0] == 'v' &&
                          std::all_of(name.begin() + 1, name.end(), [](unsigned char c) { return std::isdigit(c); }));
}

std::string operator_of(const ir::Node& n) {
  if (n.has("letters")) return "Einsum";  // a product that stands for it
  const ops::OpDef* op = ops::find(n.op);
  return op && !op->onnx.empty() ? std::string(op->onnx) : n.op;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t k = 0; k < names.size() && k < kMaxNames; ++k)
    out += (k == 0 ? "" : k + 1 == names.size() ? " and " : ", ") + names[k];
  return names.size() > kMaxNames ? out + " and " + std::to_string(names.size() - kMaxNames) + " more" : out;
}

class Translation {
 public:
  Translation(const ModelNames& names, const ir::Graph& region) : names_(names), region_(region) {}

  // As it stands in a message.
  std::string of(const ir::Value* v) const {
    std::string name = buffer_of(v, region_.inputs, names_.step->reads);
    if (name.empty()) name = buffer_of(v, region_.outputs, names_.step->writes);
    if (!name.empty()) return "'" + name + "'";
    if (v->producer && !v->producer->inputs.empty()) return "the result of " + operator_of(*v->producer);
    return v->constant || v->producer ? "a constant" : "an input";
  }

  // Each 'NAME' of a value of the region becomes the model's.
  std::string translated(const std::string& text) const {
    std::string out;
    size_t at = 0;
    while (at < text.size()) {
      const size_t open = text.find('\'', at);
      const size_t close = open == std::string::npos ? open : text.find('\'', open + 1);
      if (close == std::string::npos) break;
      const ir::Value* v = value(std::string_view(text).substr(open + 1, close - open - 1));
      out += text.substr(at, open - at);
      if (v) {
        out += of(v);
        at = close + 1;
      } else {
        out += '\'';
        at = open + 1;
      }
    }
    return out + text.substr(at);
  }

  // The node of the region that an error is about; null: none.
  const ir::Node* node(const std::string& name) const {
    for (const ir::Node* n : region_.nodes)
      for (const ir::Value* v : n->outputs)
        if (v->name == name) return n;
    return nullptr;
  }

  std::string call(const ir::Node& n) const {
    std::vector<std::string> arguments;
    for (const ir::Value* v : n.inputs)
      if (v) arguments.push_back(of(v));
    return operator_of(n) + (arguments.empty() ? "" : " of " + listed(arguments));
  }

 private:
  const ir::Value* value(std::string_view name) const {
    for (const auto& v : region_.values())
      if (v->name == name) return v.get();
    return nullptr;
  }
  // Empty: none of these, or without a name in the model.
  std::string buffer_of(const ir::Value* v, const std::vector<ir::Value*>& values,
                        const std::vector<int32_t>& buffers) const {
    const auto it = std::find(values.begin(), values.end(), v);
    const auto k = static_cast<size_t>(it - values.begin());
    if (it == values.end() || k >= buffers.size() || buffers[k] < 0) return "";
    const plan::Buffer& b = names_.program->buffers[static_cast<size_t>(buffers[k])];
    std::string name = b.name;
    if (!b.layout.empty() && name.ends_with("@" + b.layout)) name.resize(name.size() - b.layout.size() - 1);
    return made_up(name) ? "" : name;
  }
  const ModelNames& names_;
  const ir::Graph& region_;
};

// The node of the model that node `n` of a step's region was made from, where each stems from one; else, and for null,
// the one that the step is named after.
std::string name_of(const plan::Step& step, const ir::Graph& region, const ir::Node* n) {
  std::vector<const ir::Node*> computing;
  for (const ir::Node* other : region.nodes)
    if (!other->inputs.empty()) computing.push_back(other);
  const auto at = static_cast<size_t>(std::find(computing.begin(), computing.end(), n) - computing.begin());
  if (at < computing.size() && computing.size() == step.origins.size()) return step.origins[at];
  return made_up(step.name) && !step.origins.empty() ? step.origins.front() : step.name;
}

std::string quoted_origins(const plan::Step& step) {
  std::vector<std::string> out;
  for (const std::string& o : step.origins) out.push_back("'" + o + "'");
  return listed(out);
}
}  // namespace

Error ModelNames::of(Error error, const ir::Graph& region) const {
  if (!program || !step) return error;
  const Translation names(*this, region);
  for (std::string* text : {&error.message, &error.expected, &error.found, &error.remedy})
    *text = names.translated(*text);
  const ir::Node* const n = error.node.empty() ? nullptr : names.node(error.node);
  if (n) {
    error.message = names.call(*n) + ": " + error.message;
    if (step->origins.size() > 1) error.message += " (one of the nodes " + quoted_origins(*step) + ")";
  }
  error.node = name_of(*step, region, n);
  return error;
}

}  // namespace peri::exec
