// One operator after the other.
#include "onnx/containers.hpp"

#include <algorithm>
#include <unordered_set>

#include "ir/bodies.hpp"
#include "onnx/build_graph.hpp"
#include "ops/control/bodies.hpp"
#include "ops/entry.hpp"

namespace peri::onnx {

namespace {
constexpr int64_t kMaxElements = 4096;  // of a sequence that is a list

// All uses of what a node reads, each value's in one pass: it may read one many times.
void forget_inputs(ir::Node* n) {
  for (ir::Value* v : std::unordered_set<ir::Value*>(n->inputs.begin(), n->inputs.end()))
    if (v) std::erase(v->users, n);
  n->inputs.clear();
}

bool is_made_by(const ir::Value* v, std::string_view op) { return v && v->producer && v->producer->op == op; }
bool is_nothing(const ir::Value* v) { return is_made_by(v, "optional"); }
ir::Value* tensor_of(const ir::Value* v) { return is_made_by(v, kStacked) ? v->producer->in(0) : nullptr; }

Error unknown(const char* what) {
  return unsupported("%s must be known before the model runs", what)
      .advise("export the model with a constant for it, or fix the input that decides it with --fix");
}

// A position in a list; `beyond`: one behind its end counts too.
Result<size_t> position(const ir::Value& v, size_t length, bool beyond) {
  const std::optional<Tensor> known = ops::computed_constant(v);
  if (!known || known->numel() != 1) return unknown("a position in a sequence");
  const int64_t at = known->i64(0), n = static_cast<int64_t>(length);
  if (at < -n || at >= n + (beyond ? 1 : 0))
    return invalid("a position in a sequence is out of range")
        .expecting(format("-%zu to %lld", length, static_cast<long long>(n - (beyond ? 0 : 1))))
        .but_found(std::to_string(at));
  return static_cast<size_t>(at < 0 ? at + n : at);
}
}  // namespace

bool is_container(const ir::Value* v) { return elements_of(v) || tensor_of(v) || is_nothing(v); }
const std::vector<ir::Value*>* elements_of(const ir::Value* v) {
  return is_made_by(v, "sequence_construct") ? &v->producer->inputs : nullptr;
}

// ---- making nodes
Result<std::vector<ir::Value*>> TypedNodes::ops(std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs,
                                                int outputs) {
  ir::Node* n = g_.add(op, std::move(inputs), std::move(attrs), "", outputs);
  n->name = origin_.name;
  n->origins = origin_.origins;
  PERI_TRY(peri::ops::infer_node(*n, fresh_));
  return n->outputs;
}
Result<ir::Value*> TypedNodes::op(std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs) {
  PERI_ASSIGN(const std::vector<ir::Value*> made, ops(op, std::move(inputs), std::move(attrs), 1));
  return made[0];
}
ir::Value* TypedNodes::untyped(std::string_view op, std::vector<ir::Value*> inputs) {
  return g_.add(op, std::move(inputs))->out();
}
ir::Value* TypedNodes::ints(std::vector<int64_t> v) {
  return g_.add_constant("", Tensor::of_i64({static_cast<int64_t>(v.size())}, v));
}
ir::Value* TypedNodes::scalar(DType type, int64_t v) {
  auto t = Tensor::zeros(type, {});
  PERI_CHECK(t.ok());
  t->set_i64(0, v);
  return g_.add_constant("", std::move(t).value());
}
Result<ir::Value*> TypedNodes::stacked(const std::vector<ir::Value*>& elements) {
  std::vector<ir::Value*> wide;
  for (ir::Value* v : elements) {
    if (!(v->type == elements[0]->type))
      return unsupported(
                 "elements of a sequence have different shapes, and which is taken is known only when the model runs")
          .expecting(ir::type_text(elements[0]->type))
          .but_found(ir::type_text(v->type));
    PERI_ASSIGN(ir::Value * one, op("unsqueeze", {v, ints({0})}));
    wide.push_back(one);
  }
  return op("concat", wide, {{"axis", int64_t{0}}});
}

namespace {
// One operator: what takes the place of its result.
struct Opener {
  ir::Graph& g;
  ir::Node& node;
  TypedNodes make;

  Result<const std::vector<ir::Value*>*> list(size_t port) const {
    const std::vector<ir::Value*>* out = elements_of(node.in(port));
    if (out) return out;
    if (tensor_of(node.in(port)))
      return unsupported("a sequence that a loop made is changed afterwards")
          .advise("export the model with a tensor in its place");
    return invalid("input %zu is not a sequence", port);
  }

  Result<ir::Value*> insert() {
    PERI_ASSIGN(const std::vector<ir::Value*>* const old, list(0));
    std::vector<ir::Value*> all = *old;
    size_t at = all.size();
    if (node.in(2)) {
      PERI_ASSIGN(at, position(*node.in(2), all.size(), true));
    }
    if (static_cast<int64_t>(all.size()) >= kMaxElements) return unsupported("a sequence has too many elements");
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), node.in(1));
    return make.list(std::move(all));
  }
  Result<ir::Value*> erase() {
    PERI_ASSIGN(const std::vector<ir::Value*>* const old, list(0));
    std::vector<ir::Value*> all = *old;
    if (all.empty()) return invalid("an element is erased from an empty sequence");
    size_t at = all.size() - 1;
    if (node.in(1)) {
      PERI_ASSIGN(at, position(*node.in(1), all.size(), false));
    }
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
    return make.list(std::move(all));
  }
  Result<ir::Value*> element() {
    if (ir::Value* all = tensor_of(node.in(0))) return make.op("gather", {all, node.in(1)}, {{"axis", int64_t{0}}});
    PERI_ASSIGN(const std::vector<ir::Value*>* const all, list(0));
    if (all->empty()) return invalid("an element is taken from an empty sequence");
    if (const auto known = ops::computed_constant(*node.in(1))) {
      PERI_ASSIGN(const size_t at, position(*node.in(1), all->size(), false));
      return (*all)[at];
    }
    PERI_ASSIGN(ir::Value * together, make.stacked(*all));
    return make.op("gather", {together, node.in(1)}, {{"axis", int64_t{0}}});
  }
  Result<ir::Value*> length() {
    if (ir::Value* all = tensor_of(node.in(0))) {
      PERI_ASSIGN(ir::Value * size, make.op("shape", {all}, {{"start", int64_t{0}}, {"end", int64_t{1}}}));
      return make.op("squeeze", {size, make.ints({0})});
    }
    PERI_ASSIGN(const std::vector<ir::Value*>* const all, list(0));
    return make.scalar(DType::kI64, static_cast<int64_t>(all->size()));
  }

  // Sizes of the parts of an axis of `length`.
  Result<std::vector<int64_t>> part_sizes(const Dim& length) const {
    const bool given = node.in(1) != nullptr;
    const std::optional<Tensor> split = given ? ops::computed_constant(*node.in(1)) : std::nullopt;
    if (given && !split) return unknown("the sizes of the parts of a sequence");
    std::vector<int64_t> sizes;
    if (split && !split->dims().empty()) {
      for (int64_t k = 0; k < split->numel(); ++k) sizes.push_back(split->i64(k));
      return sizes;
    }
    const int64_t part = split ? split->i64(0) : 1;
    if (!length.is_const())
      return unsupported("the length of a sequence depends on the size '%s'", length.text().c_str())
          .advise("give its size: --dims NAME=N");
    if (part < 1 || length.value() / part > kMaxElements) return invalid("a part of a sequence has %ld elements", part);
    for (int64_t at = 0; at < length.value(); at += part) sizes.push_back(std::min(part, length.value() - at));
    return sizes;
  }
  Result<ir::Value*> split() {
    ir::Value* x = node.in(0);
    const int64_t rank = static_cast<int64_t>(x->type.rank()), axis = node.i("axis");
    if (axis < -rank || axis >= rank) return invalid("axis of SplitToSequence is out of range");
    PERI_ASSIGN(const std::vector<int64_t> sizes,
                part_sizes((*x->type.shape)[static_cast<size_t>(axis < 0 ? axis + rank : axis)]));
    if (sizes.empty()) return make.list({});
    PERI_ASSIGN(std::vector<ir::Value*> parts,
                make.ops("split", {x, make.ints(sizes)}, {{"axis", axis}}, static_cast<int>(sizes.size())));
    if (!node.in(1) && node.i("keepdims", 1) == 0)
      for (ir::Value*& v : parts) {
        PERI_ASSIGN(v, make.op("squeeze", {v, make.ints({axis < 0 ? axis + rank : axis})}));
      }
    return make.list(std::move(parts));
  }

  Result<ir::Value*> joined() {
    const bool fresh_axis = node.i("new_axis") != 0;
    int64_t axis = node.i("axis");
    if (ir::Value* all = tensor_of(node.in(0))) return joined_tensor(all, axis, fresh_axis);
    PERI_ASSIGN(const std::vector<ir::Value*>* const all, list(0));
    if (all->empty()) return invalid("an empty sequence is joined to one tensor");
    std::vector<ir::Value*> parts = *all;
    for (ir::Value*& v : parts)
      if (fresh_axis) {
        PERI_ASSIGN(v, make.op("unsqueeze", {v, make.ints({axis})}));
      }
    return make.op("concat", std::move(parts), {{"axis", axis}});
  }
  // [n, d...] with its first axis in place `axis`, or within that axis.
  Result<ir::Value*> joined_tensor(ir::Value* all, int64_t axis, bool fresh_axis) {
    const int64_t rank = static_cast<int64_t>(all->type.rank()), places = fresh_axis ? rank : rank - 1;
    if (axis < 0) axis += places;
    if (axis < 0 || axis >= places) return invalid("axis of ConcatFromSequence is out of range");
    std::vector<int64_t> perm;
    for (int64_t k = 1; k < rank; ++k) perm.push_back(k);
    perm.insert(perm.begin() + axis, 0);
    PERI_ASSIGN(ir::Value * moved, make.op("transpose", {all}, {{"perm", perm}}));
    if (fresh_axis) return moved;
    const auto part = [&](int64_t begin, int64_t end) {
      return make.op("shape", {moved}, {{"start", begin}, {"end", end}});
    };
    PERI_ASSIGN(ir::Value * before, part(0, axis));
    PERI_ASSIGN(ir::Value * behind, part(axis + 2, rank));
    PERI_ASSIGN(ir::Value * sizes, make.op("concat", {before, make.ints({-1}), behind}, {{"axis", int64_t{0}}}));
    return make.op("reshape", {moved, sizes});
  }

  Result<ir::Value*> result() {
    const std::string& op = node.op;
    if (op == "sequence_empty") return make.list({});
    if (op == "sequence_insert") return insert();
    if (op == "sequence_erase") return erase();
    if (op == "sequence_at") return element();
    if (op == "sequence_length") return length();
    if (op == "split_to_sequence") return split();
    if (op == "concat_from_sequence") return joined();
    if (op == "optional_has_element")
      return make.scalar(DType::kBool, node.in(0) != nullptr && !is_nothing(node.in(0)));
    if (is_nothing(node.in(0))) return invalid("the element of an empty optional is taken");
    return node.in(0);  // optional, optional_get_element, identity
  }
};

constexpr std::string_view kOps[] = {"sequence_empty",       "sequence_insert",      "sequence_erase",
                                     "sequence_at",          "sequence_length",      "split_to_sequence",
                                     "concat_from_sequence", "optional_has_element", "optional_get_element"};
// The list that a chain of inserts or erasures has gone on from, at once: of n of them all together would have n * n /
// 2 uses of the elements.
void drop_unused(ir::Graph& g, ir::Value* v, size_t* at) {
  if (!is_container(v) || !v->producer || !v->users.empty() || g.is_output(v)) return;
  ir::Node* const n = v->producer;
  if (n->outputs.size() != 1) return;
  const auto place = static_cast<size_t>(std::find(g.nodes.begin(), g.nodes.end(), n) - g.nodes.begin());
  forget_inputs(n);
  g.erase(n);
  if (place < *at) --*at;
}
}  // namespace

Result<bool> open_container(ir::Graph& g, size_t* at, int64_t* fresh) {
  ir::Node& node = *g.nodes[*at];
  const bool takes = std::any_of(node.inputs.begin(), node.inputs.end(), [](ir::Value* v) { return is_container(v); });
  const bool empty = node.op == "optional" && node.inputs.empty();
  if (node.op == "sequence_construct" || node.op == kStacked || empty) {
    for (const ir::Value* v : node.inputs)
      if (!v || !(v->type.known() || is_container(v))) return invalid("an element of a sequence is left out");
    node.attrs.clear();
    ++*at;
    return true;
  }
  if (node.op == "if" || node.op == "loop" || node.op == "sequence_map") return open_container_bodies(g, at, fresh);
  const bool opens = std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps) || node.op == "optional" ||
                     (takes && node.op == "identity");
  if (!opens && takes) return invalid("%s takes a sequence", node.op.c_str());
  if (!opens) return false;
  PERI_ASSIGN(ir::Value * out, (Opener{g, node, TypedNodes(g, node, fresh)}.result()));
  const std::vector<ir::Value*> read = node.inputs;
  g.replace_uses(node.out(), out);
  g.erase(&node);
  for (ir::Value* v : read) drop_unused(g, v, at);
  return true;
}

void open_results(ir::Graph& g, std::vector<PortInfo>* declared) {
  const std::vector<ir::Value*> before = std::exchange(g.outputs, {});
  const std::vector<std::string> names = std::exchange(g.output_names, {});
  const std::vector<PortInfo> types = std::exchange(*declared, {});
  std::unordered_set<std::string> taken(names.begin(), names.end());
  for (size_t k = 0; k < before.size(); ++k) {
    const std::vector<ir::Value*>* list = elements_of(before[k]);
    if (list) {
      const std::vector<ir::Value*> elements = *list;
      for (size_t e = 0; e < elements.size(); ++e) {
        declared->push_back({ir::unique_name(names[k] + "." + std::to_string(e), &taken), {}});
        g.mark_output(elements[e], declared->back().name);
      }
    } else if (ir::Value* all = tensor_of(before[k])) {
      declared->push_back({names[k], {}});
      g.mark_output(all, names[k]);
    } else if (!is_nothing(before[k])) {
      declared->push_back(types[k]);
      g.mark_output(before[k], names[k]);
    }
  }
}

Status drop_containers(ir::Graph& g) {
  for (size_t k = g.nodes.size(); k-- > 0;) {
    ir::Node* n = g.nodes[k];
    if (!is_container(n->out())) continue;
    if (g.is_output(n->out()))
      return unsupported("a sequence or optional is a result")
          .at_node(n->name)
          .advise("export the model with tensors only");
    if (!n->out()->users.empty()) continue;
    forget_inputs(n);
    g.erase(n);
  }
  return Ok{};
}

}  // namespace peri::onnx
