// Collects what nodes on the way to a result require of their inputs; names that are required to be equal form classes.
#include "onnx/equal_sizes.hpp"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "ops/entry.hpp"

namespace peri::onnx {

namespace {
// What importers call a dimension that the model gives no name (declared_type.cpp).
bool is_made_up(const std::string& name, const ir::Value& input, size_t axis) {
  const std::string made = input.name + "_dim_" + std::to_string(axis);
  return name.starts_with(made) && name.find_first_not_of('_', made.size()) == std::string::npos;
}

class Classes {
 public:
  explicit Classes(const ir::Graph& graph) {
    for (const bool made_up : {false, true})
      for (const ir::Value* v : graph.inputs)
        for (size_t axis = 0; v->type.shape && axis < v->type.rank(); ++axis) {
          const Dim& d = (*v->type.shape)[axis];
          if (d.is_symbol() && is_made_up(d.symbol_name(), *v, axis) == made_up)
            rank_.emplace(d.symbol_name(), rank_.size());
        }
  }
  bool several() const { return rank_.size() > 1; }
  // Two sizes are equal, as `node` requires: their names are, where one is the other plus or times a number.
  void equal(const Dim& a, const Dim& b, const ir::Node& node) {
    if ((a.is_const() && b.is_const()) || a == b) return;
    const Dim difference = a - b;
    std::set<std::string> names;
    if (difference.is_poison()) return;
    difference.collect_symbols(names);
    if (names.size() != 2 || !rank_.contains(*names.begin()) || !rank_.contains(*names.rbegin())) return;
    const std::string &x = *names.begin(), &y = *names.rbegin();
    const Dim factor = difference.substitute(DimBinding{{x, 1}, {y, 0}});
    if (!factor.is_const() || factor.is_const(0)) return;
    const Dim dx = Dim::symbol(x), dy = Dim::symbol(y);
    const std::map<std::string, Dim, std::less<>> at_least_one = {{x, dx}, {y, dy}};  // one may be 0, and one not
    if (difference.substitute(at_least_one) == factor * (dx - dy)) join(x, y, node);
  }
  SameSizes names() const {
    SameSizes out;
    for (const auto& [name, to] : to_) out.emplace(name, SameSize{last(name), to.node});
    return out;
  }

 private:
  std::string last(std::string name) const {
    for (auto it = to_.find(name); it != to_.end(); it = to_.find(name)) name = it->second.name;
    return name;
  }
  void join(const std::string& a, const std::string& b, const ir::Node& node) {
    std::string x = last(a), y = last(b);
    if (x == y) return;
    if (rank_.at(y) < rank_.at(x)) std::swap(x, y);
    to_[y] = {x, node.name};
  }

  std::map<std::string, size_t> rank_;  // the least of a class stays
  SameSizes to_;                        // each to one of a lower rank
};

const Dim* from_end(const ir::Value* v, size_t k) {
  const Shape& shape = *v->type.shape;
  return k <= shape.size() ? &shape[shape.size() - k] : nullptr;
}

// Sizes of at least 2 that are broadcast to each other are equal.
void broadcast(const ir::Node& node, size_t first_axis, Classes* classes) {
  size_t rank = 0;
  for (const ir::Value* v : node.inputs)
    if (v) rank = std::max(rank, v->type.rank());
  for (size_t k = first_axis; k <= rank; ++k) {
    const Dim* large = nullptr;
    for (const ir::Value* v : node.inputs) {
      const Dim* const d = v ? from_end(v, k) : nullptr;
      if (!d || !provably_at_least(*d, 2)) continue;
      if (large) classes->equal(*large, *d, node);
      large = d;
    }
  }
}

void concat(const ir::Node& node, Classes* classes) {
  const Shape& first = *node.inputs[0]->type.shape;
  const int64_t axis = node.i("axis"), rank = static_cast<int64_t>(first.size());
  for (const ir::Value* v : node.inputs)
    for (int64_t k = 0; k < rank && v->type.rank() == first.size(); ++k)
      if (const size_t at = static_cast<size_t>(k); k != (axis < 0 ? axis + rank : axis))
        classes->equal(first[at], (*v->type.shape)[at], node);
}

void product(const ir::Node& node, Classes* classes) {
  const ir::Value *a = node.in(0), *b = node.in(1);
  const bool gemm = node.op == "gemm";
  const Dim* const x = from_end(a, gemm && node.i("transA") ? 2 : 1);
  const Dim* const y = from_end(b, b->type.rank() == 1 || (gemm && node.i("transB")) ? 1 : 2);
  if (x && y) classes->equal(*x, *y, node);
  if (!gemm) broadcast(node, 3, classes);
}

// A reshape keeps the number of elements; where it writes out all sizes none follows from the others.
void reshape(const ir::Node& node, Classes* classes) {
  const auto& wanted = node.in(1)->content;
  if (!wanted || std::any_of(wanted->begin(), wanted->end(), [](const Dim& d) { return d.is_const(-1); })) return;
  classes->equal(peri::product(*node.in(0)->type.shape), peri::product(*node.out()->type.shape), node);
}

// Nodes whose results a result of the model is computed from.
std::unordered_set<const ir::Node*> needed(const ir::Graph& graph) {
  std::unordered_set<const ir::Node*> out;
  std::vector<const ir::Value*> open(graph.outputs.begin(), graph.outputs.end());
  while (!open.empty()) {
    const ir::Value* const v = open.back();
    open.pop_back();
    if (!v || !v->producer || !out.insert(v->producer).second) continue;
    open.insert(open.end(), v->producer->inputs.begin(), v->producer->inputs.end());
  }
  return out;
}
}  // namespace

SameSizes equal_sizes(const ir::Graph& graph) {
  Classes classes(graph);
  if (!classes.several()) return {};
  const auto nodes = needed(graph);
  for (const ir::Node* n : graph.nodes) {
    const bool known =
        std::all_of(n->inputs.begin(), n->inputs.end(), [](const ir::Value* v) { return !v || v->type.shape; });
    if (!known || n->inputs.empty() || !nodes.contains(n)) continue;
    if (n->op == "concat")
      concat(*n, &classes);
    else if (n->op == "matmul" || n->op == "gemm")
      product(*n, &classes);
    else if (n->op == "reshape")
      reshape(*n, &classes);
    else if (ops::is(*n, &ops::OpDef::elementwise))
      broadcast(*n, 1, &classes);
  }
  return classes.names();
}

SameSizes merged(SameSizes known, const SameSizes& more) {
  for (auto& [name, to] : known)
    if (const auto it = more.find(to.name); it != more.end()) to.name = it->second.name;
  known.insert(more.begin(), more.end());
  return known;
}

std::vector<std::string> same_notes(const SameSizes& same) {
  std::map<std::string, std::vector<const SameSizes::value_type*>> by_kept;
  for (const auto& pair : same) by_kept[pair.second.name].push_back(&pair);
  std::vector<std::string> out;
  for (const auto& [kept, others] : by_kept) {
    std::string names;
    constexpr size_t kMaxShown = 8;
    for (size_t k = 0; k < std::min(others.size(), kMaxShown); ++k)
      names += (k == 0 ? "'" : k + 1 == others.size() ? " and '" : ", '") + others[k]->first + "'";
    if (others.size() > kMaxShown) names += format(" and %zu more", others.size() - kMaxShown);
    const std::string& node = others[0]->second.node;
    out.push_back(names + (others.size() == 1 ? " is" : " are") + " the dimension '" + kept + "'" +
                  (node.empty() ? "" : ", as node '" + node + "' requires"));
  }
  return out;
}

}  // namespace peri::onnx
