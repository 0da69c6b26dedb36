// Matching, and values that are known when an instance is created.
#include "kernels/cpu/integer/matched.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/gemm/bound_epilogue.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu::integer {
namespace {
constexpr int64_t kMaxProducts = 32768;  // 255 * 255 each: their sum is an int32, to be scaled as it is

int64_t numel(const ir::Value* v) {
  int64_t n = 1;
  for (const int64_t d : dims_of(*v)) n *= d;
  return n;
}
bool is_known(const Problem& p, const ir::Value* v) {
  const int k = v ? input_index(*p.graph, v) : -1;
  return !v || v->constant || (k >= 0 && p.constant[static_cast<size_t>(k)]);
}

Status read_ports(const Problem& p, const ir::Node& n, bool scaled, Matched* m) {
  m->a = n.in(0);
  m->b = n.in(scaled ? 3 : 1);
  m->a_zero = n.in(2);
  m->b_zero = n.in(scaled ? 5 : 3);
  if (scaled) {
    m->a_scale = n.in(1);
    m->b_scale = n.in(4);
    m->y_scale = n.in(6);
    m->y_zero = n.in(7);
    m->bias = n.in(8);
  }
  m->a_signed = m->a->type.dtype == DType::kI8;
  m->b_signed = m->b->type.dtype == DType::kI8;
  m->a_input = input_index(*p.graph, m->a);
  m->b_input = input_index(*p.graph, m->b);
  if (m->a_input < 0 || p.constant[static_cast<size_t>(m->a_input)]) return refused("a constant left side");
  for (const ir::Value* v : {m->a_zero, m->a_scale, m->y_scale, m->y_zero})
    if (v && numel(v) != 1) return refused("a scale or zero point for each row");
  for (const ir::Value* v : {m->b_zero, m->a_scale, m->b_scale, m->y_scale, m->y_zero, m->bias})
    if (!is_known(p, v)) return refused("a scale, bias or zero point of a weight that is made while running");
  return Ok{};
}

const ir::Node* only_reader(const ir::Value* v, std::string_view op) {
  return v->users.size() == 1 && v->users[0]->op == op ? v->users[0] : nullptr;
}
std::optional<double> number(const ir::Value* v) {
  if (!v || !v->constant || v->constant->numel() != 1) return std::nullopt;
  return is_float(v->constant->dtype()) ? v->constant->f64(0) : static_cast<double>(v->constant->i64(0));
}
// As the reference has it.
double in_units(double bias, double unit) { return bias == 0 ? 0 : bias / unit; }
int32_t lowest(DType t) { return t == DType::kI8 ? -128 : 0; }

// The other side of a sum: bytes of the same size that are widened, or constants, one a column.
Status read_other(const Problem& p, const ir::Value* other, const ir::Value* like, size_t channel_axis, Sum* s) {
  if (const ir::Node* n = other->producer; n && n->op == "from_bytes") {
    const auto scale = number(n->in(1)), zero = number(n->in(2));
    s->input = input_index(*p.graph, n->in(0));
    if (!scale || !zero || s->input < 0 || p.constant[static_cast<size_t>(s->input)] || other->users.size() != 1 ||
        !(n->in(0)->type.shape == like->type.shape))
      return refused("a sum with bytes that are made in the region, or of another size");
    s->added.x_signed = n->in(0)->type.dtype == DType::kI8;
    s->added.x_scale = static_cast<float>(*scale);
    s->added.x_zero = static_cast<float>(*zero);
    return Ok{};
  }
  const std::vector<int64_t> have = dims_of(*other), want = dims_of(*like);
  const size_t from_end = want.size() - channel_axis;
  if (other->type.dtype != DType::kF32 || !is_known(p, other) || numel(other) != want[channel_axis] ||
      have.size() < from_end || have[have.size() - from_end] != want[channel_axis])
    return refused("a sum with what is neither bytes of the same size nor one constant a column");
  s->column = other;
  return Ok{};
}

// from_bytes, add, relu or clip, to_bytes behind *at, which becomes the result. `nodes`: how many were read.
Status read_sum(const Problem& p, size_t channel_axis, const ir::Value** at, size_t* nodes, Matched* m) {
  const ir::Node* const own = only_reader(*at, "from_bytes");
  const ir::Node* const add = own ? only_reader(own->out(), "add") : nullptr;
  if (!add) return refused("takes a clip and a sum of bytes behind bytes only");
  const ir::Value* const other = add->in(0) == own->out() ? add->in(1) : add->in(0);
  Sum& s = m->sum;
  PERI_TRY(read_other(p, other, *at, channel_axis, &s));
  *nodes += s.input >= 0 ? 3 : 2;
  s.added.low = -HUGE_VALF;
  s.added.high = HUGE_VALF;
  const ir::Value* end = add->out();
  if (const ir::Node* n = only_reader(end, "relu")) {
    s.added.low = 0;
    end = n->out();
    ++*nodes;
  } else if (n = only_reader(end, "clip"); n) {
    const auto low = n->in(1) ? number(n->in(1)) : std::optional(-HUGE_VAL),
               high = n->in(2) ? number(n->in(2)) : std::optional(HUGE_VAL);
    if (!low || !high || !(*low <= *high)) return refused("a clip to values made while running");
    s.added.low = static_cast<float>(*low);
    s.added.high = static_cast<float>(*high);
    end = n->out();
    ++*nodes;
  }
  const ir::Node* const to = only_reader(end, "to_bytes");
  if (!to) return refused("a sum that is not rounded into bytes");
  const auto scale = number(own->in(1)), zero = number(own->in(2)), y_scale = number(to->in(1)),
             y_zero = number(to->in(2));
  if (!scale || !zero || !y_scale || !y_zero || !(*y_scale > 1e-30) || !(*y_scale < 1e30) ||
      !(std::fabs(*scale) < 1e30))
    return refused("a scale of a sum that is made while running, or is out of range");
  s.added.own_scale = static_cast<float>(*scale);
  s.added.own_zero = static_cast<int32_t>(*zero);
  s.added.y_scale = static_cast<float>(*y_scale);
  s.added.y_zero = static_cast<int32_t>(*y_zero);
  s.added.y_low = lowest(to->out()->type.dtype);
  s.added.y_high = s.added.y_low + 255;
  m->to = to->out()->type.dtype == DType::kI8 ? To::kI8 : To::kU8;
  ++*nodes;
  *at = to->out();
  return Ok{};
}

Status read_clip(const ir::Node& clip, Matched* m) {
  for (const size_t port : {1, 2}) {
    if (!clip.in(port)) continue;
    if (!clip.in(port)->constant) return refused("a clip to values made while running");
    const auto to = static_cast<int32_t>(clip.in(port)->constant->i64(0));
    if (port == 1)
      m->low = std::max(m->low, to);
    else
      m->high = std::min(m->high, to);
  }
  return m->low > m->high ? Status(refused("a clip of nothing")) : Status(Ok{});
}

Status read_bytes(const Problem& p, const ir::Node& n, size_t channel_axis, Matched* m) {
  const ir::Value* at = n.out();
  m->to = at->type.dtype == DType::kI8 ? To::kI8 : To::kU8;
  m->low = lowest(at->type.dtype);
  m->high = m->low + 255;
  size_t nodes = 1;
  if (const ir::Node* clip = only_reader(at, "clip")) {
    PERI_TRY(read_clip(*clip, m));
    at = clip->out();
    ++nodes;
  }
  if (at != p.graph->outputs[0] && !only_reader(at, "byte_table")) {
    PERI_TRY(read_sum(p, channel_axis, &at, &nodes, m));
  }
  if (const ir::Node* look = only_reader(at, "byte_table")) {
    if (!is_known(p, look->in(1)) || look->in(0) != at) return refused("a table that is made while running");
    m->table = look->in(1);
    at = look->out();
    ++nodes;
  }
  return at == p.graph->outputs[0] && nodes == p.graph->nodes.size() ? Status(Ok{}) : refused("more than one result");
}

// cast, the factor, the rest.
Status read_floats(const Problem& p, const ir::Node& n, size_t channel_axis, Matched* m) {
  const std::vector<ir::Node*>& nodes = p.graph->nodes;
  size_t at = static_cast<size_t>(std::find(nodes.begin(), nodes.end(), &n) - nodes.begin()) + 1;
  if (at == nodes.size()) return n.out() == p.graph->outputs[0] ? Status(Ok{}) : refused("no result");
  const ir::Node* last = nodes[at++];
  if (last->op != "cast" || last->in(0) != n.out() || last->out()->type.dtype != DType::kF32 ||
      n.out()->users.size() != 1)
    return refused("takes a cast to float32 behind sums only");
  m->to = To::kFloats;
  if (at < nodes.size() && nodes[at]->op == "mul" && last->out()->users.size() == 1) {
    const ir::Node& mul = *nodes[at];
    const ir::Value* other = mul.in(0) == last->out() ? mul.in(1) : mul.in(0);
    const int k = input_index(*p.graph, other);
    if (k >= 0 && !p.constant[static_cast<size_t>(k)] && other->type.dtype == DType::kF32 && numel(other) == 1 &&
        other->type.rank() <= 1 && mul.out()->type.shape == last->out()->type.shape) {
      m->factor = k;
      last = &mul;
    }
  }
  PERI_ASSIGN(m->epilogue, match_epilogue(p, *last, channel_axis));
  if (m->epilogue.ops.size() + 1 > size_t{Epilogue::kMaxOps}) return refused("the epilogue is too long");
  return Ok{};
}
}  // namespace

Result<Matched> match_bytes(const Problem& p, std::string_view plain, std::string_view scaled, size_t channel_axis) {
  const ir::Node& n = p.anchor();
  if (n.op != plain && n.op != scaled)
    return refused("not %s or %s", std::string(plain).c_str(), std::string(scaled).c_str());
  if (p.graph->outputs.size() != 1) return refused("more than one output");
  Matched m;
  PERI_TRY(read_ports(p, n, n.op == scaled, &m));
  PERI_TRY(n.op == scaled ? read_bytes(p, n, channel_axis, &m) : read_floats(p, n, channel_axis, &m));
  return m;
}

const Tensor* known(const Problem& p, const ir::Value* v, const InstantiateContext& c, Tensor* keep) {
  if (!v) return nullptr;
  if (v->constant) *keep = *v->constant;
  const int k = input_index(*p.graph, v);
  if (!v->constant && k >= 0 && p.constant[static_cast<size_t>(k)]) *keep = c.constants[static_cast<size_t>(k)];
  return keep->defined() ? keep : nullptr;
}

Status check_zero_known(const Problem& p, const Matched& m) {
  if (input_index(*p.graph, m.b_zero) < 0) return Ok{};
  return refused("the zero points of the weights decide what a run needs");
}

Result<Fixed> Fixed::make(const Problem& p, const Matched& m, int64_t n, int64_t k, const InstantiateContext& c) {
  Fixed f;
  f.m_ = m;
  f.a_zero_ = Source::of(p, m.a_zero, c.constants);
  f.constants_ = c.constants.all_but({m.b_input});
  Tensor zero, a_scale, b_scale, y_scale, y_zero, bias;
  const Tensor* const z = known(p, m.b_zero, c, &zero);
  if (z && z->numel() != 1 && z->numel() != n) return refused("zero points that are neither one nor one a column");
  const int32_t moved = m.b_signed ? 0 : -128;
  for (int64_t j = 0; j < n; ++j)
    f.b_zero_.push_back((z ? static_cast<int32_t>(z->i64(z->numel() == 1 ? 0 : j)) : 0) + moved);
  if (std::all_of(f.b_zero_.begin(), f.b_zero_.end(), [](int32_t v) { return v == 0; })) f.b_zero_.clear();
  if (m.to != To::kU8 && m.to != To::kI8) return f;
  if (k > kMaxProducts) return refused("sums of more than %lld products", static_cast<long long>(kMaxProducts));
  const Tensor *as = known(p, m.a_scale, c, &a_scale), *bs = known(p, m.b_scale, c, &b_scale),
               *ys = known(p, m.y_scale, c, &y_scale), *yz = known(p, m.y_zero, c, &y_zero),
               *add = known(p, m.bias, c, &bias);
  if (!as || !bs || !ys || !yz || (m.bias && !add)) return refused("a scale or zero point that is not known");
  if ((bs->numel() != 1 && bs->numel() != n) || (add && add->numel() != n))
    return refused("scales or a bias that are neither one nor one a column");
  f.y_zero_ = static_cast<int32_t>(yz->i64(0));
  for (int64_t j = 0; j < n; ++j) {
    const double unit = as->f64(0) * bs->f64(bs->numel() == 1 ? 0 : j), factor = unit / ys->f64(0);
    if (!std::isfinite(factor)) return refused("a scale that is not a number");
    f.factor_.push_back(factor);
    const double bias = !add                     ? 0
                        : is_float(add->dtype()) ? in_units(add->f64(j), unit)
                                                 : static_cast<double>(add->i64(j));
    if (!std::isfinite(bias)) return refused("a bias that is not a number");
    f.bias_.push_back(bias);
  }
  f.find_quick(k);
  Tensor column, table;
  if (const Tensor* const t = known(p, m.table, c, &table)) {
    const auto* const bytes = static_cast<const uint8_t*>(t->data());
    f.table_.assign(bytes, bytes + t->numel());
  }
  if (const Tensor* const t = known(p, m.sum.column, c, &column)) {
    if (t->numel() != n) return refused("a sum with numbers that are not one a column");
    for (int64_t j = 0; j < n; ++j) f.column_.push_back(static_cast<float>(t->f64(j)));
  }
  return f;
}

// The fast path requires that sums are at most this large, float32 holds every factor, and the rest of a bias in
// float32 is small relative to the bytes.
void Fixed::find_quick(int64_t k) {
  constexpr double kMaxRest = 64;  // its product's round-off stays within what is kept free of ties (loops_body.hpp)
  const double most = 255.0 * 255.0 * static_cast<double>(k);
  const auto rest = [&](size_t j) { return (bias_[j] - std::nearbyint(bias_[j])) * factor_[j]; };
  for (size_t j = 0; j < factor_.size(); ++j)
    if (most + std::fabs(bias_[j]) + 1 > 2147483647.0 || std::fabs(factor_[j]) > 1e20 || std::fabs(rest(j)) > kMaxRest)
      return;
  for (size_t j = 0; j < factor_.size(); ++j) {
    quick_factor_.push_back(static_cast<float>(factor_[j]));
    quick_bias_.push_back(static_cast<int32_t>(std::nearbyint(bias_[j])));
    quick_rest_.push_back(static_cast<float>(rest(j)));
  }
}

int32_t Fixed::a_zero(const Args& args) const {
  const void* const z = a_zero_.data(args);
  const int32_t zero = !z ? 0 : m_.a_signed ? *static_cast<const int8_t*>(z) : *static_cast<const uint8_t*>(z);
  return zero + (m_.a_signed ? 128 : 0);
}

void Fixed::bind(const Args& args, Operands* to, Epilogue* epilogue) const {
  to->a_zero = a_zero(args);
  to->b_zero = b_zero_.data();
  to->y = args.out[0];
  to->rounding = {.factor = factor_.data(), .bias = bias_.data(), .zero = y_zero_, .low = m_.low, .high = m_.high};
  if (!quick_factor_.empty()) {
    to->rounding.quick_factor = quick_factor_.data();
    to->rounding.quick_bias = quick_bias_.data();
    to->rounding.quick_rest = quick_rest_.data();
  }
  if (!table_.empty()) to->rounding.table = table_.data();
  to->rounding.added = m_.sum.added;
  if (m_.sum.input >= 0) to->rounding.added.x = static_cast<const uint8_t*>(args.in[static_cast<size_t>(m_.sum.input)]);
  if (!column_.empty()) to->rounding.added.column = column_.data();
  if (m_.to != To::kFloats) return;
  if (m_.factor >= 0)
    add_op(*epilogue,
           {.kind = PostKind::kAffine, .a = *static_cast<const float*>(args.in[static_cast<size_t>(m_.factor)])});
  const Epilogue rest = bind_epilogue(m_.epilogue, constants_, args, to->ldy);
  for (int k = 0; k < rest.count; ++k) add_op(*epilogue, rest.ops[k]);
  to->epilogue = epilogue;
}

Result<std::vector<Offer>> offers_of(const Problem& p, const Target& target) {
  PERI_ASSIGN(const std::vector<Dot> dots, dots_of(target));
  std::vector<Offer> out;
  for (const Dot dot : dots) {
    Offer o;
    o.config = "dot=" + std::string(dot_name(dot));
    o.inputs.resize(p.graph->inputs.size());
    o.outputs.resize(1);
    o.requires_isa = dot_isa(dot);
    out.push_back(std::move(o));
  }
  return out;
}

}  // namespace peri::kernels::cpu::integer
