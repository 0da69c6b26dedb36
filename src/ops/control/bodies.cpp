// Closing of types, merging of branches, and the most specific types that are valid in every iteration of a loop.
#include "ops/control/bodies.hpp"

#include <algorithm>

#include "ops/control/closed.hpp"

namespace peri::ops {

namespace {
const ir::Graph& body_of(const ir::Node& n, std::string_view key) {
  return *std::get<std::shared_ptr<ir::Graph>>(n.attrs.find(key)->second);
}

Status check_interface(const ir::Graph& g, size_t inputs, size_t outputs, const char* what) {
  if (g.inputs.size() == inputs && g.outputs.size() == outputs) return Ok{};
  return invalid("%s has %zu inputs and %zu outputs", what, g.inputs.size(), g.outputs.size())
      .expecting(format("%zu and %zu", inputs, outputs));
}

Status check_one_element(const InferContext& c, size_t i, const char* what) {
  if (product(c.shape(i)).is_const(1)) return Ok{};
  return invalid("%s is not one element", what).but_found(ir::type_text(c.in(i)));
}

// ---- if
struct Branch {
  std::vector<DType> types;
  std::vector<Shape> shapes;
  std::vector<Content> contents;
};

Result<Branch> infer_branch(InferContext& c, const char* key, const BodyInference& infer) {
  const ir::Graph& body = body_of(c.node, key);
  PERI_TRY(check_interface(body, c.node.inputs.size() - 1, c.node.outputs.size(), key));
  Closed closed;
  for (size_t k = 1; k < c.node.inputs.size(); ++k) {
    closed.types.push_back(c.in(k));
    closed.types.back().layout = {};
    const std::vector<Dim>* known = c.elements(k);
    closed.contents.push_back(known ? Content(*known) : std::nullopt);
  }
  closed.close();
  ir::Graph g = opened(body, closed);
  PERI_TRY(infer(g));
  Branch out;
  Names made;
  for (const ir::Value* v : g.outputs) {
    out.types.push_back(v->type.dtype);
    out.shapes.push_back(closed.outside(*v->type.shape, c, "if", &made));
    out.contents.push_back(v->content ? Content(closed.outside(*v->content, c, "if", &made)) : std::nullopt);
  }
  c.bodies[key] = std::make_shared<ir::Graph>(std::move(g));
  return out;
}
}  // namespace

Status infer_if(InferContext& c, const BodyInference& infer) {
  PERI_TRY(check_one_element(c, 0, "the condition of an if"));
  const std::optional<int64_t> taken = known_element(*c.node.in(0));
  if (taken) {
    PERI_ASSIGN(const Branch only, infer_branch(c, *taken ? "then_branch" : "else_branch", infer));
    for (size_t k = 0; k < only.types.size(); ++k) {
      c.set(k, only.types[k], only.shapes[k]);
      if (only.contents[k]) c.set_content(k, *only.contents[k]);
    }
    return Ok{};
  }
  PERI_ASSIGN(const Branch yes, infer_branch(c, "then_branch", infer));
  PERI_ASSIGN(const Branch no, infer_branch(c, "else_branch", infer));
  for (size_t k = 0; k < yes.types.size(); ++k) {
    const auto differ = [&](const char* what) {
      return Status(unsupported("the branches of an if give result %zu with different %s", k, what)
                        .expecting(ir::type_text({yes.types[k], yes.shapes[k]}))
                        .but_found(ir::type_text({no.types[k], no.shapes[k]}))
                        .advise("fix the sizes that decide the branch when exporting, or an input with --fix"));
    };
    if (yes.types[k] != no.types[k]) return differ("element types");
    if (yes.shapes[k].size() != no.shapes[k].size()) return differ("ranks");
    Shape s = yes.shapes[k];
    for (size_t a = 0; a < s.size(); ++a)
      if (!(s[a] == no.shapes[k][a])) s[a] = c.fresh("if");
    c.set(k, yes.types[k], std::move(s));
    if (yes.contents[k] && yes.contents[k] == no.contents[k]) c.set_content(k, *yes.contents[k]);
  }
  return Ok{};
}

namespace {
// ---- loop
constexpr std::string_view kCarriedStem = "data.carried", kCarriedDim = "data.carried_";

// A size of a loop-carried value that differs between iterations. Those of one group are equal in each of them: they
// are equal at first, and if they are equal before an iteration they are after it.
struct Axis {
  size_t value, axis;
  int group = -1;  // -1: the same in every iteration
};

struct LoopTypes {
  InferContext& c;
  const ir::Graph& body;
  size_t carried;
  std::vector<Axis> axes;
  Closed closed;

  ir::Type start(size_t k) const {
    ir::Type t = c.in(2 + k);
    t.layout = {};
    return t;
  }

  void list_axes() {
    std::map<std::string, int> groups;
    for (size_t k = 0; k < carried; ++k) {
      const ir::Type& stated = body.inputs[2 + k]->type;
      const Shape& first = c.shape(2 + k);
      for (size_t a = 0; a < first.size(); ++a) {
        axes.push_back({k, a});
        if (!stated.shape || stated.shape->size() != first.size()) continue;
        // What an earlier inference found to change stays so, whatever it begins with.
        const Dim& d = (*stated.shape)[a];
        if (!d.is_symbol() || d == first[a] || !d.symbol_name().starts_with(kCarriedDim)) continue;
        const int next = static_cast<int>(groups.size());
        axes.back().group = groups.emplace(d.text() + " " + first[a].text(), next).first->second;
      }
    }
  }

  // The types of the body's inputs for the groups as they are.
  void state() {
    closed = {};
    closed.types = {ir::Type(DType::kI64, {}), ir::Type(DType::kBool, {})};
    closed.contents = {std::nullopt, std::vector<Dim>{Dim(1)}};  // the body runs where the condition holds
    for (size_t k = 0; k < carried; ++k) {
      closed.types.push_back(start(k));
      closed.contents.push_back(std::nullopt);
    }
    for (size_t k = 2 + carried; k < c.node.inputs.size(); ++k) {
      closed.types.push_back(c.in(k));
      closed.types.back().layout = {};
      const std::vector<Dim>* known = c.elements(k);
      closed.contents.push_back(known ? Content(*known) : std::nullopt);
    }
    for (const Axis& x : axes)
      if (x.group >= 0) (*closed.types[2 + x.value].shape)[x.axis] = Dim(0);  // its name must be of no other size
    closed.close();
    std::map<int, Dim> names;
    for (const Axis& x : axes) {
      if (x.group < 0) continue;
      const auto [it, fresh] = names.try_emplace(x.group);
      if (fresh) {
        it->second = Dim::symbol(closed.free_name(kCarriedStem));
        closed.bound.insert(it->second.symbol_name());
      }
      (*closed.types[2 + x.value].shape)[x.axis] = it->second;
    }
  }

  Status check_carried(const ir::Graph& g) const {
    for (size_t k = 0; k < carried; ++k) {
      const ir::Type &in = closed.types[2 + k], &out = g.outputs[1 + k]->type;
      if (in.dtype == out.dtype && in.rank() == out.rank()) continue;
      return invalid("a loop's carried value '%s' changes its %s in an iteration", body.inputs[2 + k]->name.c_str(),
                     in.dtype != out.dtype ? "element type" : "rank")
          .expecting(ir::type_text(in))
          .but_found(ir::type_text(out))
          .advise("a carried value keeps its type and rank; its sizes may change");
    }
    return Ok{};
  }

  // Groups anew by what the body makes of the sizes; whether any changed.
  bool regroup(const ir::Graph& g) {
    std::map<std::string, int> groups;
    bool changed = false;
    std::map<int, int> became;
    for (Axis& x : axes) {
      const Dim& in = (*closed.types[2 + x.value].shape)[x.axis];
      const Dim& out = (*g.outputs[1 + x.value]->type.shape)[x.axis];
      if (x.group < 0 && in == out) continue;
      const std::string key = c.shape(2 + x.value)[x.axis].text() + " " + in.text() + " " + out.text();
      const int next = static_cast<int>(groups.size());
      const int group = groups.emplace(key, next).first->second;
      changed = changed || x.group < 0 || became.try_emplace(x.group, group).first->second != group;
      x.group = group;
    }
    return changed;
  }
};

// The number of iterations as a size, where no condition ends the loop before.
std::optional<Dim> known_trips(const InferContext& c, const ir::Graph& g) {
  if (!c.has(0)) return std::nullopt;
  const std::vector<Dim>* trips = c.elements(0);
  const auto stays = known_element(*g.outputs[0]);
  const auto begins = c.has(1) ? known_element(*c.node.in(1)) : std::optional<int64_t>(1);
  if (begins && *begins == 0) return Dim(0);
  if (!trips || trips->size() != 1 || !stays || *stays == 0 || !begins) return std::nullopt;
  const Dim& d = (*trips)[0];
  if (d.is_const())
    return d.value() > (int64_t{1} << 31) ? std::nullopt : std::optional(Dim(std::max<int64_t>(0, d.value())));
  return provably_at_least(d, 0) ? d : max(d, Dim(0));
}

Status set_loop_outputs(InferContext& c, const LoopTypes& types, const ir::Graph& g) {
  Names made;
  std::map<std::string, Dim> last;  // sizes after the last iteration, by their names in the body
  for (size_t k = 0; k < types.carried; ++k) {
    Shape s;
    for (const Dim& d : *types.closed.types[2 + k].shape) {
      const bool changes = d.is_symbol() && std::any_of(types.axes.begin(), types.axes.end(), [&](const Axis& x) {
                             return x.group >= 0 && (*types.closed.types[2 + x.value].shape)[x.axis] == d;
                           });
      if (changes) {
        auto [it, fresh] = last.try_emplace(d.symbol_name());
        if (fresh) it->second = c.fresh("loop");
        s.push_back(it->second);
        continue;
      }
      s.push_back(types.closed.outside({d}, c, "loop", &made)[0]);
    }
    c.set(k, types.closed.types[2 + k].dtype, std::move(s));
  }
  const std::optional<Dim> trips = known_trips(c, g);
  std::optional<Dim> stacked = trips;
  const std::vector<int64_t> at = c.node.ints("axes");
  for (size_t k = types.carried; k < c.node.outputs.size(); ++k) {
    const ir::Type& part = g.outputs[1 + k]->type;
    Names own = made;  // no size of one iteration alone is one of the whole
    for (const Axis& x : types.axes) {
      if (x.group < 0) continue;
      const std::string name = (*types.closed.types[2 + x.value].shape)[x.axis].symbol_name();
      if (!own.contains(name)) own.emplace(name, c.fresh("loop"));
    }
    Shape s = types.closed.outside(*part.shape, c, "loop", &own);
    const int64_t rank = static_cast<int64_t>(s.size()) + 1;
    int64_t axis = k - types.carried < at.size() ? at[k - types.carried] : 0;
    if (axis < -rank || axis >= rank)
      return invalid("scan output %zu is stacked along axis %lld", k - types.carried, static_cast<long long>(axis))
          .expecting(format("-%lld to %lld", static_cast<long long>(rank), static_cast<long long>(rank - 1)));
    if (axis < 0) axis += rank;
    if (!stacked) stacked = c.fresh("trips");
    s.insert(s.begin() + axis, *stacked);
    c.set(k, part.dtype, std::move(s));
  }
  return Ok{};
}
}  // namespace

Status infer_loop(InferContext& c, const BodyInference& infer) {
  const ir::Graph& body = body_of(c.node, "body");
  const int64_t carried = c.node.i("carried");
  if (carried < 0 || c.node.inputs.size() < 2 || static_cast<uint64_t>(carried) > c.node.inputs.size() - 2 ||
      static_cast<uint64_t>(carried) > c.node.outputs.size())
    return invalid("a loop carries %lld values", static_cast<long long>(carried))
        .but_found(format("%zu inputs and %zu outputs", c.node.inputs.size(), c.node.outputs.size()));
  for (size_t k = 2; k < c.node.inputs.size(); ++k)
    if (!c.has(k)) return invalid("input %zu of a loop is left out", k);
  PERI_TRY(check_interface(body, c.node.inputs.size(), c.node.outputs.size() + 1, "the body of a loop"));
  if (c.has(0) && c.dtype(0) != DType::kI64) return invalid("a trip count is of type i64");
  if (c.has(1) && c.dtype(1) != DType::kBool) return invalid("the condition of a loop is of type bool");
  if (c.has(0)) PERI_TRY(check_one_element(c, 0, "a trip count"));
  if (c.has(1)) PERI_TRY(check_one_element(c, 1, "the condition of a loop"));
  LoopTypes types{c, body, static_cast<size_t>(carried), {}, {}};
  types.list_axes();
  ir::Graph g;
  for (size_t round = 0;; ++round) {
    types.state();
    g = opened(body, types.closed);
    PERI_TRY(infer(g));
    PERI_TRY(types.check_carried(g));
    if (!types.regroup(g)) break;
    if (round > 2 * types.axes.size() + 2) return internal_error("the types of a loop do not settle");
  }
  const ir::Type& more = g.outputs[0]->type;
  if (more.dtype != DType::kBool || !product(*more.shape).is_const(1))
    return invalid("the first result of a loop's body is not its condition")
        .expecting("bool[]")
        .but_found(ir::type_text(more));
  PERI_TRY(set_loop_outputs(c, types, g));
  c.bodies["body"] = std::make_shared<ir::Graph>(std::move(g));
  return Ok{};
}

Status complete_bodies(ir::Node& node, int64_t* fresh_symbol, const BodyInference& infer) {
  for (const ir::Value* v : node.inputs)
    if (v && !v->type.known())
      return unsupported("the type of input '%s' is not known", v->name.c_str())
          .advise("give the graph's inputs a type and a rank");
  InferContext context{node, {}, {}, fresh_symbol, {}};
  context.out.resize(node.outputs.size());
  context.content.resize(node.outputs.size());
  PERI_TRY(node.op == "if" ? infer_if(context, infer) : infer_loop(context, infer));
  for (auto& [key, body] : context.bodies) node.attrs[key] = std::move(body);
  return Ok{};
}

}  // namespace peri::ops
