// Matching of epilogues.
#include "kernels/match/epilogue_match.hpp"

#include <algorithm>
#include <cmath>

namespace peri::kernels {

int input_index(const ir::Graph& graph, const ir::Value* v) {
  for (size_t k = 0; k < graph.inputs.size(); ++k)
    if (graph.inputs[k] == v) return static_cast<int>(k);
  return -1;
}

namespace {
std::optional<double> scalar_of(const ir::Value* v) {
  if (!v || !v->constant || v->constant->numel() != 1 || !is_float(v->constant->dtype())) return std::nullopt;
  return v->constant->f64(0);
}

std::optional<MatchedOp> activation_of(const ir::Node& n) {
  auto make = [](Activation act, double a = 0, double b = 0) {
    MatchedOp m;
    m.op.kind = PostKind::kActivation;
    m.op.act = act;
    m.op.a = static_cast<float>(a);
    m.op.b = static_cast<float>(b);
    return std::optional(m);
  };
  if (n.op == "relu") return make(Activation::kRelu);
  if (n.op == "sigmoid") return make(Activation::kSigmoid);
  if (n.op == "tanh") return make(Activation::kTanh);
  if (n.op == "leaky_relu") return make(Activation::kLeakyRelu, n.f("alpha", 0.01));
  if (n.op == "hard_sigmoid") return make(Activation::kHardSigmoid, n.f("alpha", 0.2), n.f("beta", 0.5));
  if (n.op == "hard_swish") return make(Activation::kHardSwish);
  if (n.op == "swish" && n.f("alpha", 1.0) == 1.0) return make(Activation::kSilu);
  if (n.op == "gelu") return make(n.s("approximate", "none") == "tanh" ? Activation::kGeluTanh : Activation::kGelu);
  if (n.op == "clip") {
    const auto low = n.in(1) ? scalar_of(n.in(1)) : std::optional(-HUGE_VAL),
               high = n.in(2) ? scalar_of(n.in(2)) : std::optional(HUGE_VAL);
    if (low && high) return make(Activation::kClip, *low, *high);
  }
  return std::nullopt;
}

// f(x) * x with f = sigmoid or hard_sigmoid(1/6, 1/2).
std::optional<MatchedOp> gate_of(const ir::Node& inner, const ir::Node& outer, const ir::Value* x) {
  if (outer.op != "mul" || outer.inputs.size() != 2) return std::nullopt;
  const bool both =
      (outer.in(0) == x && outer.in(1) == inner.out()) || (outer.in(1) == x && outer.in(0) == inner.out());
  if (!both) return std::nullopt;
  auto m = activation_of(inner);
  if (!m) return std::nullopt;
  if (m->op.act == Activation::kSigmoid)
    m->op.act = Activation::kSilu;
  else if (m->op.act == Activation::kHardSigmoid && std::fabs(m->op.a - 1.0f / 6) < 1e-7f && m->op.b == 0.5f)
    m->op.act = Activation::kHardSwish;
  else
    return std::nullopt;
  return m;
}

// How `other` meets the running value: a scalar, one value a channel, or element by element.
Result<MatchedOp> operand(const Problem& p, const ir::Node& n, const ir::Value* other, const ir::Value* out,
                          size_t channel_axis, bool add) {
  MatchedOp m;
  if (const auto s = scalar_of(other)) {
    m.op.kind = PostKind::kAffine;
    m.op.a = add ? 1.0f : static_cast<float>(*s);
    m.op.b = add ? static_cast<float>(*s) : 0.0f;
    return m;
  }
  m.needs_data = true;
  m.input = input_index(*p.graph, other);
  if (m.input < 0 && !other->constant) return refused("%s takes a second value of the region", n.op.c_str());
  if (other->type.dtype != DType::kF32) return refused("an operand of %s is not f32", n.op.c_str());
  const std::vector<int64_t> have = dims_of(*other), want = dims_of(*out);
  int64_t numel = 1;
  for (int64_t d : have) numel *= d;
  const size_t from_end = want.size() - channel_axis;
  // A value computed at run time with axes before the channel may be wider at another batch: [1,1,1,s] is then
  // [batch,1,1,s].
  const bool widens = m.input >= 0 && !p.constant[static_cast<size_t>(m.input)] && have.size() > from_end;
  const bool per_channel = !widens && from_end <= have.size() && have[have.size() - from_end] == want[channel_axis] &&
                           numel == want[channel_axis];
  if (have == want && other->type.layout == p.graph->outputs[0]->type.layout && m.input >= 0 &&
      !p.constant[static_cast<size_t>(m.input)]) {
    m.op.kind = add ? PostKind::kAdd : PostKind::kMul;
  } else if (per_channel) {
    m.op.kind = add ? PostKind::kColAdd : PostKind::kColMul;
  } else {
    return refused("an operand of %s is neither a scalar, one value a channel, nor of full size", n.op.c_str())
        .but_found(ir::type_text(other->type));
  }
  if (m.input < 0)
    for (int64_t k = 0; k < other->constant->numel(); ++k)
      m.values.push_back(static_cast<float>(other->constant->f64(k)));
  return m;
}
}  // namespace

Result<MatchedEpilogue> match_epilogue(const Problem& p, const ir::Node& anchor, size_t channel_axis) {
  const ir::Graph& g = *p.graph;
  MatchedEpilogue out;
  if (g.outputs.size() != 1) return refused("more than one output");
  if (channel_axis >= anchor.out()->type.rank()) return refused("its result has no axis of channels");
  const ir::Value* at = anchor.out();
  size_t k = static_cast<size_t>(std::find(g.nodes.begin(), g.nodes.end(), &anchor) - g.nodes.begin()) + 1;
  while (k < g.nodes.size()) {
    const ir::Node& n = *g.nodes[k];
    if (n.out()->type.dtype != DType::kF32)
      return refused("%s makes %s", n.op.c_str(), dtype_name(n.out()->type.dtype).data());
    const bool reads = std::find(n.inputs.begin(), n.inputs.end(), at) != n.inputs.end();
    if (!reads) return refused("%s is not part of a chain", n.op.c_str());
    if (at->users.size() == 2 && k + 1 < g.nodes.size()) {
      auto gate = gate_of(n, *g.nodes[k + 1], at);
      if (!gate || n.out()->users.size() != 1) return refused("%s branches", n.op.c_str());
      out.ops.push_back(*gate);
      at = g.nodes[k + 1]->out();
      k += 2;
    } else {
      if (at->users.size() != 1) return refused("%s branches", n.op.c_str());
      if (auto act = activation_of(n)) {
        out.ops.push_back(*act);
      } else if ((n.op == "add" || n.op == "mul") && n.inputs.size() == 2) {
        PERI_ASSIGN(MatchedOp m,
                    operand(p, n, n.in(0) == at ? n.in(1) : n.in(0), anchor.out(), channel_axis, n.op == "add"));
        if (m.op.kind == PostKind::kAdd) out.residual = m.input;
        out.ops.push_back(std::move(m));
      } else {
        return refused("no epilogue for %s", n.op.c_str());
      }
      if (!(n.out()->type.shape == anchor.out()->type.shape)) return refused("%s changes the shape", n.op.c_str());
      at = n.out();
      ++k;
    }
    if (out.ops.size() > size_t{kMaxPostSteps}) return refused("the epilogue is too long");
  }
  if (at != g.outputs[0]) return refused("the chain does not end in the output");
  return out;
}

int only_residual(const Problem& p, const MatchedEpilogue& e) {
  if (e.residual < 0) return -1;
  const ir::Value* v = p.graph->inputs[static_cast<size_t>(e.residual)];
  return v->users.size() == 1 ? e.residual : -1;
}

int shared_residual(const Problem& p, const MatchedEpilogue& e) {
  const size_t at = !e.ops.empty() && e.ops[0].op.kind == PostKind::kColAdd ? 1 : 0;
  if (at >= e.ops.size() || e.ops[at].op.kind != PostKind::kAdd || e.ops[at].input != e.residual) return -1;
  return only_residual(p, e);
}

}  // namespace peri::kernels
