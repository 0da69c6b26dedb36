// Branches, loops and maps over sequences: what a body takes from outside becomes its elements, a body that changes a
// sequence is repeated where it is known how often, and a sequence that a loop makes grow is a scan output.
#include <algorithm>

#include "ir/bodies.hpp"
#include "onnx/build_graph.hpp"
#include "onnx/containers.hpp"
#include "onnx/import.hpp"
#include "onnx/refusals.hpp"
#include "ops/control/bodies.hpp"

namespace peri::onnx {

namespace {
constexpr int64_t kMaxRepeats = 1000;

ir::Graph& body_of(const ir::Node& n, const char* key) {
  return *std::get<std::shared_ptr<ir::Graph>>(n.attrs.at(key));
}

void take_input(ir::Graph& g, ir::Node* n, size_t k) {
  g.set_input(n, k, nullptr);
  n->inputs.erase(n->inputs.begin() + static_cast<std::ptrdiff_t>(k));
}

// Captures from input `first` on: each sequence becomes its elements, in the bodies too.
Status open_captures(ir::Graph& g, ir::Node* n, size_t first, size_t before) {
  for (size_t k = n->inputs.size(); k-- > first;) {
    const ir::Value* v = n->inputs[k];
    if (!is_container(v)) continue;
    const std::string op = v->producer->op;
    const std::vector<ir::Value*> elements = v->producer->inputs;
    for (const ir::Value* e : elements)
      if (is_container(e)) return unsupported("a sequence of sequences is used in a body");
    take_input(g, n, k);
    for (ir::Value* e : elements) g.append_input(n, e);
    for (const auto& [key, body] : ir::bodies_of(*n)) {
      ir::Value* formal = body->inputs[k - before];
      std::vector<ir::Value*> inside;
      for (const ir::Value* e : elements) inside.push_back(body->add_input(e->name, {}));
      body->replace_uses(formal, body->add(op, inside)->out());
      ir::drop_input(*body, k - before);
    }
  }
  return Ok{};
}

// The condition that a body hands on is true: a constant, or what it was given.
bool goes_on(const ir::Graph& body) {
  const ir::Value* v = body.outputs[0];
  while (v->producer && v->producer->op == "identity") v = v->producer->in(0);
  return v == body.inputs[1] || (v->constant && v->constant->numel() == 1 && v->constant->i64(0) != 0);
}

// How often a loop runs; none: a run decides it.
std::optional<int64_t> repeats(const ir::Node& n) {
  if (!goes_on(body_of(n, "body")) || !n.in(0)) return std::nullopt;
  const auto condition = n.in(1) ? ops::computed_constant(*n.in(1)) : std::nullopt;
  if (n.in(1) && !condition) return std::nullopt;
  if (condition && condition->i64(0) == 0) return 0;
  const auto trips = ops::computed_constant(*n.in(0));
  if (!trips || trips->numel() != 1) return std::nullopt;
  return std::max<int64_t>(trips->i64(0), 0);
}

// A node that is completed next, or at `position`.
ir::Node* add_at(ir::Graph& g, size_t position, std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs) {
  attrs[std::string(kOpsetAttr)] = static_cast<int64_t>(kNewestOpset);
  ir::Node* n = g.add(op, std::move(inputs), std::move(attrs));
  std::rotate(g.nodes.begin() + static_cast<std::ptrdiff_t>(position), g.nodes.end() - 1, g.nodes.end());
  return n;
}

Status repeat_loop(ir::Graph& g, size_t at, ir::Node* n, int64_t times, int64_t* fresh) {
  if (times > kMaxRepeats)
    return unsupported("a loop that changes a sequence runs %lld times", static_cast<long long>(times))
        .expecting(format("at most %lld", static_cast<long long>(kMaxRepeats)));
  TypedNodes make(g, *n, fresh);
  const ir::Graph& body = body_of(*n, "body");
  const auto carried = static_cast<size_t>(n->i("carried"));
  std::vector<ir::Value*> values(n->inputs.begin() + 2, n->inputs.begin() + 2 + static_cast<std::ptrdiff_t>(carried));
  const std::vector<ir::Value*> captures(n->inputs.begin() + 2 + static_cast<std::ptrdiff_t>(carried), n->inputs.end());
  std::vector<std::vector<ir::Value*>> scans(n->outputs.size() - carried);
  size_t position = at;
  for (int64_t k = 0; k < times; ++k) {
    std::vector<ir::Value*> arguments = {make.scalar(DType::kI64, k), make.scalar(DType::kBool, 1)};
    arguments.insert(arguments.end(), values.begin(), values.end());
    arguments.insert(arguments.end(), captures.begin(), captures.end());
    size_t made = 0;
    const std::vector<ir::Value*> results = ir::inline_body(g, body, arguments, position, &made);
    position += made;
    for (size_t c = 0; c < carried; ++c) values[c] = results[1 + c];
    for (size_t s = 0; s < scans.size(); ++s) scans[s].push_back(results[1 + carried + s]);
  }
  for (size_t c = 0; c < carried; ++c) g.replace_uses(n->outputs[c], values[c]);
  const std::vector<int64_t> axes = n->ints("axes"), reversed = n->ints("reversed");
  for (size_t s = 0; s < scans.size(); ++s) {
    if (n->outputs[carried + s]->users.empty() && !g.is_output(n->outputs[carried + s])) continue;
    if (scans[s].empty()) return unsupported("a loop over a sequence that does not run has scan outputs");
    if (s < reversed.size() && reversed[s]) std::reverse(scans[s].begin(), scans[s].end());
    const ir::Node* joined = add_at(g, position++, "concat_from_sequence", {make.list(scans[s])},
                                    {{"axis", s < axes.size() ? axes[s] : 0}, {"new_axis", int64_t{1}}});
    g.replace_uses(n->outputs[carried + s], joined->out());
  }
  g.erase(n);
  return Ok{};
}

// What a body adds at the end of carried sequence `c` and does nothing else with it; null: it does.
ir::Value* added(const ir::Graph& body, size_t c) {
  const ir::Value *in = body.inputs[2 + c], *out = body.outputs[1 + c];
  const ir::Node* insert = out->producer;
  const bool once = in->users.size() == 1 && insert && in->users[0] == insert && out->users.empty();
  return once && insert->op == "sequence_insert" && insert->in(0) == in && !insert->in(2) && insert->in(1) != in
             ? insert->in(1)
             : nullptr;
}

// A loop whose carried sequences only grow: each is a scan output, behind what it began with.
Status grow(ir::Graph& g, size_t* at, ir::Node* n, const std::vector<size_t>& sequences, int64_t* fresh) {
  ir::Graph& body = body_of(*n, "body");
  const auto carried = static_cast<size_t>(n->i("carried"));
  std::vector<ir::Value*> grown, began;
  for (const size_t c : sequences) {
    ir::Value* x = added(body, c);
    if (!x || !elements_of(n->in(2 + c)))
      return unsupported("a loop changes a sequence, and a run decides how often")
          .expecting("one element that is added at the end in each iteration")
          .advise(
              "fix what the number of iterations depends on with --fix or --dims, or export the model with tensors");
    grown.push_back(x);
    began.push_back(n->in(2 + c));
  }
  std::vector<ir::Value*> inputs = n->inputs;
  for (size_t s = sequences.size(); s-- > 0;) {
    const auto c = static_cast<std::ptrdiff_t>(sequences[s]);
    inputs.erase(inputs.begin() + 2 + c);
    ir::Node* insert = body.outputs[static_cast<size_t>(1 + c)]->producer;
    body.outputs.erase(body.outputs.begin() + 1 + c);
    body.output_names.erase(body.output_names.begin() + 1 + c);
    body.erase(insert);
    ir::drop_input(body, static_cast<size_t>(2 + c));
  }
  std::unordered_set<std::string> taken(body.output_names.begin(), body.output_names.end());
  for (ir::Value* v : grown) body.mark_output(v, ir::unique_name(v->name + ".added", &taken));
  ir::Attrs attrs = n->attrs;
  attrs["carried"] = static_cast<int64_t>(carried - sequences.size());
  attrs.erase(std::string(kOpsetAttr));
  ir::Node* loop = add_at(g, *at, "loop", inputs, std::move(attrs));
  loop->name = n->name;
  loop->origins = n->origins;
  while (loop->outputs.size() + 1 < body.outputs.size()) g.add_output_value(loop, "");
  TypedNodes make(g, *n, fresh);
  size_t next = 0, position = *at + 1;
  for (size_t k = 0; k < n->outputs.size(); ++k) {
    const auto it = std::find(sequences.begin(), sequences.end(), k);
    if (it == sequences.end()) {
      g.replace_uses(n->outputs[k], loop->outputs[next++]);
      continue;
    }
    const auto s = static_cast<size_t>(it - sequences.begin());
    ir::Value* all = loop->outputs[n->outputs.size() - sequences.size() + s];
    if (!elements_of(began[s])->empty()) {
      const ir::Node* first =
          add_at(g, position++, "concat_from_sequence", {began[s]}, {{"axis", int64_t{0}}, {"new_axis", int64_t{1}}});
      all = add_at(g, position++, "concat", {first->out(), all}, {{"axis", int64_t{0}}})->out();
    }
    g.replace_uses(n->outputs[k], make.of_tensor(all));
  }
  g.erase(n);
  return Ok{};
}

Result<bool> open_loop(ir::Graph& g, size_t* at, ir::Node* n, int64_t* fresh) {
  const auto carried = static_cast<size_t>(n->i("carried"));
  std::vector<size_t> sequences;
  for (size_t c = 0; c < carried; ++c)
    if (is_container(n->in(2 + c))) sequences.push_back(c);
  if (sequences.empty()) {
    PERI_TRY(open_captures(g, n, 2 + carried, 0));
    return false;
  }
  if (const auto times = repeats(*n)) {
    PERI_TRY(repeat_loop(g, *at, n, *times, fresh));
    return true;
  }
  PERI_TRY(open_captures(g, n, 2 + carried, 0));
  PERI_TRY(grow(g, at, n, sequences, fresh));
  return true;
}

// One copy of the body for each element.
Status open_map(ir::Graph& g, size_t at, ir::Node* n, int64_t* fresh) {
  const ir::Graph& body = body_of(*n, "body");
  const auto formals = static_cast<size_t>(n->i("formals"));
  const std::vector<ir::Value*>* first = elements_of(n->in(0));
  if (!first) return unsupported("the length of a sequence that is mapped must be known before the model runs");
  TypedNodes make(g, *n, fresh);
  std::vector<std::vector<ir::Value*>> results(n->outputs.size());
  size_t position = at;
  for (size_t k = 0; k < first->size(); ++k) {
    std::vector<ir::Value*> arguments;
    for (size_t i = 0; i < n->inputs.size(); ++i) {
      const std::vector<ir::Value*>* list = i < formals ? elements_of(n->in(i)) : nullptr;
      if (list && list->size() != first->size()) return invalid("sequences that are mapped have different lengths");
      arguments.push_back(list ? (*list)[k] : n->in(i));
    }
    size_t made = 0;
    const std::vector<ir::Value*> out = ir::inline_body(g, body, arguments, position, &made);
    position += made;
    for (size_t o = 0; o < results.size(); ++o) results[o].push_back(out[o]);
  }
  for (size_t o = 0; o < results.size(); ++o) g.replace_uses(n->outputs[o], make.list(results[o]));
  g.erase(n);
  return Ok{};
}
}  // namespace

Result<bool> open_container_bodies(ir::Graph& g, size_t* at, int64_t* fresh) {
  ir::Node* n = g.nodes[*at];
  if (n->op == "sequence_map") {
    PERI_TRY(open_map(g, *at, n, fresh));
    return true;
  }
  if (n->op == "loop") return open_loop(g, at, n, fresh);
  PERI_TRY(open_captures(g, n, 1, 1));
  return false;
}

}  // namespace peri::onnx
