// Pattern reading and the Rewriter.
#include "passes/rewrite/rewrite.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>

namespace peri::passes {

std::optional<double> scalar_of(const ir::Value* v) {
  if (!v || !v->constant || v->constant->numel() != 1) return std::nullopt;
  const DType t = v->constant->dtype();
  if (!ops::contains(ops::kNumbers, t)) return std::nullopt;
  return is_float(t) ? v->constant->f64(0) : static_cast<double>(v->constant->i64(0));
}

bool is_scalar(const ir::Value* v, double want, double relative) {
  const auto s = scalar_of(v);
  return s && std::fabs(*s - want) <= relative * std::fabs(want);
}

bool same_shape(const ir::Value* a, const ir::Value* b) {
  return a->type.shape && b->type.shape && *a->type.shape == *b->type.shape;
}

bool stays_within(const ir::Value* v, const ir::Value* wide) {
  if (!v->type.shape || !wide->type.shape || v->type.rank() > wide->type.rank()) return false;
  const Shape &s = *v->type.shape, &w = *wide->type.shape;
  for (size_t k = 1; k <= s.size(); ++k)
    if (!s[s.size() - k].is_const(1) && !(s[s.size() - k] == w[w.size() - k])) return false;
  return true;
}

std::optional<std::vector<int64_t>> numbers_of(const ir::Value* v) {
  std::vector<int64_t> out;
  if (!v) return std::nullopt;
  if (v->constant && ops::contains(ops::kInts, v->constant->dtype()) && v->constant->rank() <= 1) {
    for (int64_t k = 0; k < v->constant->numel(); ++k) out.push_back(v->constant->i64(k));
    return out;
  }
  if (!v->content || !v->type.shape || v->type.rank() > 1) return std::nullopt;
  for (const Dim& d : *v->content) {
    if (!d.is_const()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

ir::Node* made_by(const ir::Value* v, std::string_view op) {
  return v && v->producer && v->producer->op == op ? v->producer : nullptr;
}

std::vector<int64_t> perm_of(const ir::Node& transpose) {
  std::vector<int64_t> reversed;
  for (size_t k = transpose.in(0)->type.rank(); k-- > 0;) reversed.push_back(static_cast<int64_t>(k));
  return transpose.ints("perm", reversed);
}

bool is_identity(const std::vector<int64_t>& perm) {
  for (size_t k = 0; k < perm.size(); ++k)
    if (perm[k] != static_cast<int64_t>(k)) return false;
  return true;
}

std::optional<WithScalar> with_scalar(const ir::Node& node) {
  if (node.inputs.size() != 2 || !node.in(0) || !node.in(1)) return std::nullopt;
  const bool either = node.op == "mul" || node.op == "add" || node.op == "max" || node.op == "min";
  for (size_t k : {1, 0}) {
    if (k == 0 && !either) break;
    const auto s = scalar_of(node.in(k));
    if (s && same_shape(node.in(1 - k), node.out())) return WithScalar{node.in(1 - k), *s};
  }
  return std::nullopt;
}

bool Rewriter::live(const ir::Node* node) const {
  return std::any_of(node->outputs.begin(), node->outputs.end(),
                     [&](const ir::Value* v) { return !v->users.empty() || graph_.is_output(v); });
}

Result<ir::Value*> Rewriter::make(std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs,
                                  const ir::Value* like) {
  ir::Node* n = graph_.add(op, std::move(inputs), std::move(attrs), like ? like->name : "");
  if (like && like->producer) n->name = like->producer->name;
  const auto gather = [&](std::vector<std::string> ir::Node::* list, std::string_view last) {
    std::unordered_set<std::string_view> there;
    for (const ir::Node* r : replaced_)
      for (const std::string& text : r->*list)
        if (there.insert(text).second) (n->*list).push_back(text);
    if (!last.empty() && !there.contains(last)) (n->*list).emplace_back(last);
  };
  gather(&ir::Node::origins, "");
  gather(&ir::Node::touched_by, pass_);
  if (fresh_ < 0) fresh_ = ops::first_fresh(graph_);
  PERI_TRY(ops::infer_node(*n, &fresh_));
  return n->out();
}

bool Rewriter::sized_by_inputs(const Shape& shape) const {
  std::set<std::string> symbols, given;
  for (const Dim& d : shape) d.collect_symbols(symbols);
  if (symbols.empty()) return true;
  for (const ir::Value* v : graph_.inputs)
    for (const Dim& d : *v->type.shape) d.collect_symbols(given);
  return std::includes(given.begin(), given.end(), symbols.begin(), symbols.end());
}

ir::Value* Rewriter::scalar(DType dtype, double value, std::string_view name) {
  auto t = Tensor::zeros(dtype, {});
  PERI_CHECK(t.ok());
  t->set_f64(0, value);
  return graph_.add_constant(name, std::move(t).value());
}

ir::Value* Rewriter::ints(const std::vector<int64_t>& values, std::string_view name) {
  return graph_.add_constant(name, Tensor::of_i64({static_cast<int64_t>(values.size())}, values));
}

Result<ir::Value*> Rewriter::reshape(ir::Value* x, const Shape& to, const ir::Value* like) {
  if (*x->type.shape == to) return x;
  std::vector<int64_t> numbers;
  size_t symbolic = 0;
  for (const Dim& d : to) {
    if (!d.is_const()) ++symbolic;
    numbers.push_back(d.is_const() ? d.value() : -1);
  }
  const bool empty = std::find(numbers.begin(), numbers.end(), 0) != numbers.end();
  bool zeros_stay = empty;  // written out, a dimension that may be 0 is not an axis of the input to copy
  ir::Value* shape = nullptr;
  if (symbolic == 0 || (symbolic == 1 && !empty)) {
    shape = ints(numbers, "shape");
  } else if (!sized_by_inputs(to)) {  // what the data decide is copied from the axis in its place
    for (size_t k = 0; k < to.size() && k < x->type.rank(); ++k)
      if (!to[k].is_const() && to[k] == (*x->type.shape)[k]) numbers[k] = 0;
    if (empty || std::count(numbers.begin(), numbers.end(), -1) > 1)
      return refused("a shape of several sizes that the data decide");
    shape = ints(numbers, "shape");
  } else {
    zeros_stay |= !std::all_of(to.begin(), to.end(), [](const Dim& d) { return provably_at_least(d, 1); });
    ir::Attrs attrs;
    attrs["value"] = std::vector<Dim>(to.begin(), to.end());
    PERI_ASSIGN(shape, make("dims_constant", {}, std::move(attrs), nullptr));
  }
  PERI_ASSIGN(ir::Value * y,
              make("reshape", {x, shape}, zeros_stay ? ir::Attrs{{"allowzero", int64_t{1}}} : ir::Attrs{}, like));
  // -1 may come back in another normal form than the dimension it stands for.
  y->type.shape = to;
  return y;
}

Result<ir::Value*> Rewriter::transpose(ir::Value* x, const std::vector<int64_t>& perm, const ir::Value* like) {
  if (is_identity(perm)) return x;
  return make("transpose", {x}, {{"perm", perm}}, like);
}

void Rewriter::replace(ir::Value* from, ir::Value* to) {
  if (from == to) return;
  graph_.replace_uses(from, to);
  ++count_;
  if (from->producer) release(from->producer);
}

void Rewriter::release(ir::Node* node) {
  std::vector<ir::Node*> work = {node};
  while (!work.empty()) {
    ir::Node* n = work.back();
    work.pop_back();
    if (live(n)) continue;
    for (size_t k = 0; k < n->inputs.size(); ++k) {
      ir::Value* v = n->inputs[k];
      if (!v) continue;
      graph_.set_input(n, k, nullptr);
      if (v->producer) work.push_back(v->producer);
    }
  }
}

Result<int64_t> rewrite_all(ir::Graph& graph, std::string_view pass, const Rule& rule, int sweeps) {
  Rewriter w(graph, pass);
  for (int k = 0; k < sweeps; ++k) {
    bool changed = false;
    for (ir::Node* n : w.nodes()) {
      if (!w.live(n)) continue;
      w.standing_for({n});
      PERI_ASSIGN(const bool hit, rule(w, n));
      changed |= hit;
    }
    if (!changed) break;
  }
  return w.count();
}

}  // namespace peri::passes
