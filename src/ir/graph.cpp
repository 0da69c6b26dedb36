// Ownership, use lists and order of a graph.
#include "ir/graph.hpp"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

namespace peri::ir {

Layout nhwc() { return {{0, 2, 3, 1}, -1, 0}; }

namespace {
template <class T>
const T* get(const Node& n, std::string_view key) {
  auto it = n.attrs.find(key);
  if (it == n.attrs.end()) return nullptr;
  const T* v = std::get_if<T>(&it->second);
  PERI_CHECK(v != nullptr, n.op + "." + std::string(key) + " has another kind");
  return v;
}
}  // namespace

int64_t Node::i(std::string_view key, int64_t fallback) const {
  const auto* v = get<int64_t>(*this, key);
  return v ? *v : fallback;
}
double Node::f(std::string_view key, double fallback) const {
  const auto* v = get<double>(*this, key);
  return v ? *v : fallback;
}
std::string Node::s(std::string_view key, std::string_view fallback) const {
  const auto* v = get<std::string>(*this, key);
  return v ? *v : std::string(fallback);
}
std::vector<int64_t> Node::ints(std::string_view key, std::vector<int64_t> fallback) const {
  const auto* v = get<std::vector<int64_t>>(*this, key);
  if (v) return *v;
  return fallback;
}
std::vector<double> Node::floats(std::string_view key) const {
  const auto* v = get<std::vector<double>>(*this, key);
  return v ? *v : std::vector<double>{};
}
const std::vector<Dim>* Node::dims(std::string_view key) const { return get<std::vector<Dim>>(*this, key); }
const Tensor* Node::tensor(std::string_view key) const { return get<Tensor>(*this, key); }

bool same_attr(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, Tensor>) {
          return x.same_content(y);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<Graph>>) {
          return x == y || equal(*x, *y);
        } else if constexpr (std::is_same_v<T, std::vector<std::shared_ptr<Graph>>>) {
          return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                            [](auto& p, auto& q) { return p == q || equal(*p, *q); });
        } else {
          return x == y;
        }
      },
      a);
}

// The last suffix of each name is remembered, so that many values of one name stay cheap to make.
std::string Graph::free_name(std::string_view wanted) {
  std::string fresh(wanted);
  if (!by_name_.contains(fresh)) return fresh;
  int& n = last_suffix_[fresh];
  do fresh = std::string(wanted) + "." + std::to_string(++n);
  while (by_name_.contains(fresh));
  return fresh;
}

Value* Graph::new_value(std::string_view wanted) {
  auto v = std::make_unique<Value>();
  v->id = next_id_++;
  v->name = free_name(wanted.empty() ? "v" + std::to_string(v->id) : std::string(wanted));
  by_name_[v->name] = v.get();
  values_.push_back(std::move(v));
  return values_.back().get();
}

Value* Graph::add_input(std::string_view wanted, Type type) {
  Value* v = new_value(wanted);
  v->type = std::move(type);
  v->is_input = true;
  inputs.push_back(v);
  return v;
}

Value* Graph::add_constant(std::string_view wanted, Tensor tensor) {
  Value* v = new_value(wanted);
  v->type = Type(tensor.dtype(), Shape(tensor.dims().begin(), tensor.dims().end()));
  v->constant = std::move(tensor);
  return v;
}

Node* Graph::add(std::string_view op, std::vector<Value*> node_inputs, Attrs attrs, std::string_view out_name,
                 int output_count) {
  auto n = std::make_unique<Node>();
  n->id = next_id_++;
  n->op = op;
  n->attrs = std::move(attrs);
  nodes_.push_back(std::move(n));
  Node* node = nodes_.back().get();
  for (Value* v : node_inputs) append_input(node, v);
  for (int i = 0; i < output_count; ++i) add_output_value(node, out_name);
  nodes.push_back(node);
  return node;
}

Value* Graph::add_output_value(Node* node, std::string_view wanted) {
  Value* v = new_value(wanted);
  v->producer = node;
  v->output_index = static_cast<int>(node->outputs.size());
  node->outputs.push_back(v);
  return v;
}

void Graph::mark_output(Value* v, std::string_view interface_name) {
  outputs.push_back(v);
  output_names.emplace_back(interface_name);
}

namespace {
void drop_user(Value* v, Node* n) {
  if (!v) return;
  auto it = std::find(v->users.begin(), v->users.end(), n);
  PERI_CHECK(it != v->users.end(), "use list of '" + v->name + "'");
  v->users.erase(it);
}
}  // namespace

void Graph::set_input(Node* node, size_t index, Value* v) {
  while (node->inputs.size() <= index) node->inputs.push_back(nullptr);
  drop_user(node->inputs[index], node);
  node->inputs[index] = v;
  if (v) v->users.push_back(node);
}

void Graph::append_input(Node* node, Value* v) {
  node->inputs.push_back(v);
  if (v) v->users.push_back(node);
}

void Graph::replace_uses(Value* from, Value* to) {
  if (from == to) return;
  for (Node* n : std::vector<Node*>(from->users))
    for (size_t i = 0; i < n->inputs.size(); ++i)
      if (n->inputs[i] == from) set_input(n, i, to);
  for (Value*& o : outputs)
    if (o == from) o = to;
}

void Graph::erase(Node* node) {
  for (Value* v : node->outputs) PERI_CHECK(v->users.empty() && !is_output(v), "erase of a node in use: " + v->name);
  for (size_t i = 0; i < node->inputs.size(); ++i) drop_user(node->inputs[i], node);
  std::erase(nodes, node);
  const std::vector<Value*> gone = node->outputs;
  for (Value* v : gone) by_name_.erase(v->name);
  std::erase_if(values_, [&](const auto& v) { return v->producer == node; });
  std::erase_if(nodes_, [&](const auto& n) { return n.get() == node; });
}

void Graph::forget(Value* v) {
  by_name_.erase(v->name);
  std::erase_if(values_, [&](const auto& own) { return own.get() == v; });
}

int Graph::erase_dead() {
  std::unordered_map<const Node*, bool> alive;
  std::vector<Node*> work;
  auto reach = [&](Value* v) {
    if (v && v->producer && !alive[v->producer]) {
      alive[v->producer] = true;
      work.push_back(v->producer);
    }
  };
  for (Value* v : outputs) reach(v);
  while (!work.empty()) {
    Node* n = work.back();
    work.pop_back();
    for (Value* v : n->inputs) reach(v);
  }
  int gone = 0;
  for (Node* n : nodes) {
    if (alive[n]) continue;
    ++gone;
    for (Value* v : n->inputs)
      if (v) std::erase(v->users, n);
    n->inputs.clear();
  }
  std::erase_if(nodes, [&](Node* n) { return !alive[n]; });
  const std::vector<Value*> kept_outputs = outputs;
  auto unused = [&](const Value& v) {
    if (v.producer) return !alive[v.producer];
    return v.constant && v.users.empty() &&
           std::find(kept_outputs.begin(), kept_outputs.end(), &v) == kept_outputs.end();
  };
  for (const auto& v : values_)
    if (unused(*v)) by_name_.erase(v->name);
  std::erase_if(values_, [&](const auto& v) { return unused(*v); });
  std::erase_if(nodes_, [&](const auto& n) { return !alive[n.get()]; });
  return gone;
}

Status Graph::sort() {
  std::unordered_map<const Node*, size_t> position;
  std::unordered_map<const Node*, int> missing;
  for (size_t i = 0; i < nodes.size(); ++i) position[nodes[i]] = i;
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (Node* n : nodes) {
    int count = 0;
    for (Value* v : n->inputs) count += v && v->producer;
    missing[n] = count;
    if (count == 0) ready.push(position[n]);
  }
  std::vector<Node*> order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    Node* n = nodes[ready.top()];
    ready.pop();
    order.push_back(n);
    for (Value* v : n->outputs)
      for (Node* user : v->users)
        if (--missing[user] == 0) ready.push(position[user]);
  }
  if (order.size() != nodes.size()) {
    for (const Node* n : nodes) {
      if (missing[n] == 0) continue;
      const Value* result = n->out();
      return invalid("the graph has a cycle").at_node(n->name.empty() && result ? result->name : n->name);
    }
  }
  nodes = std::move(order);
  return Ok{};
}

Value* Graph::find(std::string_view value_name) const {
  auto it = by_name_.find(value_name);
  return it == by_name_.end() ? nullptr : it->second;
}
bool Graph::is_output(const Value* v) const { return std::find(outputs.begin(), outputs.end(), v) != outputs.end(); }

void Graph::rename(Value* v, std::string_view name_wanted) {
  if (v->name == name_wanted) return;
  by_name_.erase(v->name);
  v->name = free_name(name_wanted);
  by_name_[v->name] = v;
}

std::vector<Value*> Graph::constants() const {
  std::vector<Value*> out;
  for (const auto& v : values_)
    if (v->constant) out.push_back(v.get());
  return out;
}

Graph Graph::clone() const {
  Graph g(name);
  std::unordered_map<const Value*, Value*> value_of;
  for (const auto& v : values_) {
    auto copy = std::make_unique<Value>(*v);
    copy->producer = nullptr;
    copy->users.clear();
    value_of[v.get()] = copy.get();
    g.by_name_[copy->name] = copy.get();
    g.values_.push_back(std::move(copy));
  }
  for (const Node* n : nodes) {
    auto copy = std::make_unique<Node>(*n);
    for (auto& [key, attr] : copy->attrs) {
      if (auto* sub = std::get_if<std::shared_ptr<Graph>>(&attr)) *sub = std::make_shared<Graph>((*sub)->clone());
      if (auto* subs = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attr))
        for (auto& s : *subs) s = std::make_shared<Graph>(s->clone());
    }
    for (Value*& v : copy->inputs)
      if (v) (v = value_of.at(v))->users.push_back(copy.get());
    for (Value*& v : copy->outputs) (v = value_of.at(v))->producer = copy.get();
    g.nodes.push_back(copy.get());
    g.nodes_.push_back(std::move(copy));
  }
  for (const Value* v : inputs) g.inputs.push_back(value_of.at(v));
  for (const Value* v : outputs) g.outputs.push_back(value_of.at(v));
  g.output_names = output_names;
  g.next_id_ = next_id_;
  g.last_suffix_ = last_suffix_;
  return g;
}

Status verify_structure(const Graph& g) {
  if (g.outputs.size() != g.output_names.size()) return internal_error("outputs and their names differ in number");
  std::unordered_set<std::string_view> names;
  for (const std::string& name : g.output_names)
    if (!names.insert(name).second) return internal_error("two outputs are called '%s'", name.c_str());
  std::unordered_map<const Node*, size_t> position;
  for (size_t i = 0; i < g.nodes.size(); ++i) position[g.nodes[i]] = i;
  std::unordered_map<const Value*, size_t> uses;
  for (const Node* n : g.nodes) {
    if (n->op.empty()) return internal_error("a node without an op");
    if (n->outputs.empty()) return internal_error("a node without outputs").at_node(n->name);
    for (const Value* v : n->outputs)
      if (!v || v->producer != n) return internal_error("an output with another producer").at_node(n->name);
    for (const Value* v : n->inputs) {
      if (!v) continue;
      ++uses[v];
      if (v->producer && (!position.contains(v->producer) || position[v->producer] >= position[n]))
        return internal_error("'%s' is used before it is made", v->name.c_str()).at_node(n->name);
      if (!v->producer && !v->is_input && !v->constant) return internal_error("'%s' has no source", v->name.c_str());
    }
  }
  for (const auto& v : g.values()) {
    if (v->users.size() != uses[v.get()]) return internal_error("use list of '%s' is wrong", v->name.c_str());
    if (g.find(v->name) != v.get()) return internal_error("name '%s' is not unique", v->name.c_str());
  }
  for (const Value* v : g.outputs)
    if (!v || (!v->producer && !v->is_input && !v->constant)) return internal_error("an output without a source");
  return Ok{};
}

}  // namespace peri::ir
