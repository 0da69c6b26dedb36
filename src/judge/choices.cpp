// What is chosen goes up and all else down, as far as the radii of the values allow; for the least, the other way.
#include "judge/choices.hpp"

#include <algorithm>
#include <cmath>

#include "ops/reference/elements.hpp"
#include "ops/shape/indices.hpp"

namespace peri::judge {
namespace {

// Lines of x along the axis of the choice: [outer, length, inner].
struct Lines {
  int64_t length = 1, inner = 1, count = 1;
  int64_t first(int64_t line) const { return line / inner * length * inner + line % inner; }
};

// By name: how the answer of an operator is read as a choice matters here alone.
struct Choice {
  std::string_view op;
  int64_t axis;     // the default
  size_t output;    // that is the choice
  bool marks;       // ones and zeros beside the values; else indices
  int64_t largest;  // the default
};
constexpr Choice kChoices[] = {
    {"hardmax", -1, 0, true, 1},
    {"arg_max", 0, 0, false, 1},
    {"arg_min", 0, 0, false, 0},
    {"top_k", -1, 1, false, 1},
};

// What of `n` a value is, if that is a choice; else null.
const Choice* choice_of(const ir::Node& n, const ir::Value* wanted) {
  for (const Choice& c : kChoices)
    if (c.op == n.op && c.output < n.outputs.size() && wanted == n.outputs[c.output]) return &c;
  return nullptr;
}

Result<Lines> lines_of(const ir::Node& n, const Choice& c, const std::vector<int64_t>& dims) {
  if (dims.empty()) return Lines{};
  PERI_ASSIGN(const int64_t axis, ops::normalize_axis(n.i("axis", c.axis), dims.size()));
  const size_t a = static_cast<size_t>(axis);
  Lines l{dims[a], ops::span_of(dims, a + 1, dims.size())};
  l.count = ops::span_of(dims, 0, a) * l.inner;
  return l;
}

// Moves the values of one line so that `order`, best first, is what is chosen of it; `sign`: 1 for the largest.
void order_line(ops::RefTensor* x, const Lines& l, int64_t first, double sign, std::span<const int64_t> order) {
  const auto at = [&](int64_t k) { return static_cast<size_t>(first + k * l.inner); };
  const auto toward = [&](size_t p, double side) {  // from 0 on it gets better
    const double r = x->radius.empty() || !std::isfinite(x->radius[p]) ? 0 : x->radius[p];
    return round_to(x->dtype, x->f[p] + sign * side * r);
  };
  std::vector<bool> chosen(static_cast<size_t>(l.length), false);
  for (const int64_t k : order) chosen[static_cast<size_t>(k)] = true;
  double best = -INFINITY;  // of what is not chosen, and then of what is chosen after
  for (int64_t k = 0; k < l.length; ++k) {
    if (chosen[static_cast<size_t>(k)]) continue;
    x->f[at(k)] = toward(at(k), -1);
    best = std::max(best, sign * x->f[at(k)]);
  }
  for (size_t k = order.size(); k-- > 0;) {
    const size_t p = at(order[k]);
    const double low = sign * toward(p, -1), high = sign * toward(p, 1);
    const double above = x->dtype == DType::kF64 ? std::nextafter(best, double{INFINITY})
                                                 : double{std::nextafter(static_cast<float>(best), INFINITY)};
    const double least = std::max(low, round_to(x->dtype, above));
    x->f[p] = sign * (order.size() == 1 ? high : std::min(high, least));
    best = sign * x->f[p];
  }
}

// What `got` chooses of a line, best first; none where it is no choice.
std::vector<int64_t> chosen_of(const Choice& c, const Tensor& got, const Lines& l, int64_t line) {
  std::vector<int64_t> order;
  if (c.marks) {
    for (int64_t k = 0; k < l.length; ++k)
      if (got.f64(l.first(line) + k * l.inner) == 1) order.push_back(k);
    if (order.size() != 1) order.clear();
    return order;
  }
  const int64_t many = l.count > 0 ? got.numel() / l.count : 0;
  for (int64_t e = 0; e < many; ++e) {
    const int64_t k = got.i64(line / l.inner * many * l.inner + e * l.inner + line % l.inner);
    if (k < 0 || k >= l.length || std::count(order.begin(), order.end(), k) != 0) return {};
    order.push_back(k);
  }
  return order;
}
}  // namespace

Result<ops::RefTensor> choice_toward(const ir::Graph& graph, std::span<const ops::RefTensor> inputs, const Tensor& got,
                                     ops::RefOptions options) {
  const ir::Node* n = graph.outputs[0]->producer;
  const Choice* const c = n ? choice_of(*n, graph.outputs[0]) : nullptr;
  if (!c || !is_float(n->in(0)->type.dtype) || !n->in(0)->producer)
    return unsupported("no choice among computed values");
  ir::Graph before = graph.clone(), choice;
  const ir::Node* copy = before.outputs[0]->producer;
  before.outputs.clear();
  before.output_names.clear();
  std::vector<ir::Value*> in;
  for (ir::Value* v : copy->inputs) {
    before.mark_output(v, v->name);
    in.push_back(choice.add_input(v->name, v->type));
  }
  ir::Node* last = choice.add(n->op, std::move(in), n->attrs, "chosen", static_cast<int>(n->outputs.size()));
  for (size_t k = 0; k < n->outputs.size(); ++k) last->outputs[k]->type = n->outputs[k]->type;
  options.positions.clear();
  options.shake = 0;
  PERI_ASSIGN(std::vector<ops::RefTensor> values, ops::run_reference(before, inputs, options));
  ops::RefTensor& x = values[0];
  PERI_ASSIGN(const Lines l, lines_of(*n, *c, x.dims));
  const int64_t least = c->marks ? x.numel() : l.count;
  if (l.length == 0 || got.numel() < least) return unsupported("an answer of other sizes");
  const bool largest = n->i("largest", c->largest) != 0;
  for (int64_t line = 0; line < l.count; ++line)
    if (const std::vector<int64_t> order = chosen_of(*c, got, l, line); !order.empty())
      order_line(&x, l, l.first(line), largest ? 1 : -1, order);
  choice.mark_output(last->outputs[c->output], "chosen");
  PERI_ASSIGN(auto out, ops::run_reference(choice, values, options));
  return std::move(out[0]);
}

}  // namespace peri::judge
