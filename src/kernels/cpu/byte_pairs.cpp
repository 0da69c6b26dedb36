// Kernel byte_pairs: the sum or product of two tensors of bytes as bytes, each with its own scale, optionally through a
// relu or clip; the smaller of the two may be broadcast. Row-major or NHWC.
#include <algorithm>
#include <cmath>

#include "kernels/block/translate.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/quantize/loops.hpp"
#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
using cpu::kTaskElements;
using cpu::quantize::Loops;
using cpu::quantize::Pair;
constexpr size_t kMaxDims = 64;

struct Side {
  const ir::Value* bytes = nullptr;
  double scale = 0;
  int32_t zero = 0;
  bool is_signed = false;
};
struct Read {
  Pair pair;
  const ir::Value *a = nullptr, *b = nullptr;
};

std::optional<double> number(const ir::Value* v) {
  if (!v || !v->constant || v->constant->numel() != 1) return std::nullopt;
  return v->constant->f64(0);
}

// Scale and zero point of from_bytes and to_bytes.
Result<Side> side_of(const ir::Node& n, const ir::Value* bytes) {
  const auto scale = number(n.in(1)), zero = number(n.in(2));
  if (!scale || !zero) return refused("a scale or zero point made while running");
  if (!(std::fabs(*scale) > 1e-18) || !(std::fabs(*scale) < 1e18)) return refused("a scale out of range");
  return Side{bytes, *scale, static_cast<int32_t>(*zero), bytes->type.dtype == DType::kI8};
}
Result<Side> input_of(const Problem& p, const ir::Value* number) {
  const ir::Node* const n = number ? number->producer : nullptr;
  if (!n || n->op != "from_bytes" || n->in(0)->producer) return refused("a side that is not made of bytes");
  for (const ir::Value* out : p.graph->outputs)
    if (out == number) return refused("numbers that leave the region");
  return side_of(*n, n->in(0));
}

// The relu or clip behind the join, in units of the result, moves `at` on.
Status read_clip(const ir::Value** at, const Side& y, Pair* pair) {
  if ((*at)->users.size() != 1) return refused("a sum that is read twice");
  const ir::Node& n = *(*at)->users[0];
  double low = -HUGE_VAL, high = HUGE_VAL;
  if (n.op == "relu") {
    low = 0;
  } else if (n.op == "clip") {
    const auto below = number(n.in(1)), above = number(n.in(2));
    if ((n.in(1) && !below) || (n.in(2) && !above)) return refused("a clip to values made while running");
    low = below.value_or(low);
    high = above.value_or(high);
    if (!(low <= high)) return refused("a clip of nothing");
  } else {
    return Ok{};
  }
  const float scale = static_cast<float>(y.scale), from = static_cast<float>(low) / scale,
              to = static_cast<float>(high) / scale;
  pair->low = std::max(pair->low, std::min(from, pair->high));
  pair->high = std::min(pair->high, std::max(to, pair->low));
  *at = n.out();
  return Ok{};
}

Result<Read> read(const Problem& p) {
  const ir::Graph& g = *p.graph;
  if (g.outputs.size() != 1 || !g.outputs[0]->producer || g.outputs[0]->producer->op != "to_bytes")
    return refused("does not make bytes");
  const ir::Node &last = *g.outputs[0]->producer, *join = nullptr;
  for (const ir::Node* n : g.nodes)
    if (n->op == "add" || n->op == "mul") join = n;
  if (!join || join->inputs.size() != 2) return refused("neither a sum nor a product of two");
  PERI_ASSIGN(Side a, input_of(p, join->in(0)));
  PERI_ASSIGN(Side b, input_of(p, join->in(1)));
  PERI_ASSIGN(const Side y, side_of(last, last.out()));
  if (!(y.scale > 0)) return refused("a scale of the result that is not above zero");
  if (!(a.bytes->type.shape == last.out()->type.shape)) std::swap(a, b);
  if (!(a.bytes->type.shape == last.out()->type.shape)) return refused("two sides that are broadcast");
  Read r{{}, a.bytes, b.bytes};
  Pair& k = r.pair;
  k.product = join->op == "mul";
  k.a_flip = a.is_signed ? 0x80 : 0;
  k.b_flip = b.is_signed ? 0x80 : 0;
  k.a_zero = a.zero + (a.is_signed ? 128 : 0);
  k.b_zero = b.zero + (b.is_signed ? 128 : 0);
  k.y_zero = y.zero;
  k.a_scale = static_cast<float>(k.product ? a.scale * b.scale / y.scale : a.scale / y.scale);
  k.b_scale = static_cast<float>(b.scale / y.scale);
  k.low = static_cast<float>((y.is_signed ? -128 : 0) - y.zero);
  k.high = k.low + 255;
  const ir::Value* at = join->out();
  PERI_TRY(read_clip(&at, y, &k));
  const size_t nodes = (at == join->out() ? 4 : 5) - (join->in(0) == join->in(1) ? 1 : 0);
  if (last.in(0) != at || at->users.size() != 1 || g.nodes.size() != nodes) return refused("other steps between");
  return r;
}

// Dims that both sides walk as one, from the last to the first; one step of b is 0 or 1.
struct Walk {
  int64_t row = 1, rows = 1, b_step = 1;
  std::vector<int64_t> dims, steps;  // of b, over the rows, the fastest first
};
Result<Walk> walk_of(const block::Space& space, size_t b) {
  Walk w;
  std::vector<int64_t> dims, steps;
  for (size_t d = space.dims.size(); d-- > 0;) {
    if (space.dims[d] == 1) continue;
    const int64_t step = space.strides[b][d];
    if (!dims.empty() && step == steps.back() * dims.back()) {
      dims.back() *= space.dims[d];
    } else {
      dims.push_back(space.dims[d]);
      steps.push_back(step);
    }
  }
  if (dims.empty()) return w;
  if (dims.size() > kMaxDims || steps[0] > 1) return refused("a broadcast of many axes");
  w.row = dims[0];
  w.b_step = steps[0];
  w.dims.assign(dims.begin() + 1, dims.end());
  w.steps.assign(steps.begin() + 1, steps.end());
  for (const int64_t d : w.dims) w.rows *= d;
  return w;
}
int64_t place_of(const Walk& w, int64_t row) {
  int64_t at = 0;
  for (size_t d = 0; d < w.dims.size(); ++d, row /= w.dims[d - 1]) at += row % w.dims[d] * w.steps[d];
  return at;
}

// Both sides over the result's dims in its layout: the first is dense, the other lies as the answer says.
Result<Walk> plan(const Problem& p, const Read& r) {
  PERI_ASSIGN(const block::Translated t, block::translate(p));
  PERI_ASSIGN(const block::Space space, block::space_of(p, t, p.graph->outputs[0]->type.layout));
  int64_t all = 1;
  for (const int64_t d : space.dims) all *= d;
  if (all == 0) return refused("an empty tensor");
  for (size_t k = 0; k < t.arguments.size(); ++k) {
    if (t.arguments[k] < 0) return refused("bytes that are part of the region");
    if (p.graph->inputs[static_cast<size_t>(t.arguments[k])] == r.b) return walk_of(space, k);
  }
  return refused("reads a value made inside the region");
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  std::vector<Offer> out;
  const size_t rank = p.graph->outputs[0]->type.rank();
  for (const ir::Layout& layout : {ir::Layout{}, ir::nhwc()}) {
    if (!layout.row_major() && rank != 4) continue;
    ir::Graph g = p.graph->clone();
    Offer o = row_major_offer(p, target);
    o.outputs[0] = g.outputs[0]->type.layout = layout;
    for (size_t k = 0; k < g.inputs.size(); ++k)
      if (!p.constant[k] && g.inputs[k]->type.rank() == rank) o.inputs[k] = g.inputs[k]->type.layout = layout;
    const Problem placed{&g, p.constant};
    PERI_ASSIGN(const Read again, read(placed));
    PERI_TRY(plan(placed, again));
    out.push_back(std::move(o));
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_ASSIGN(const Read r, read(p));
  if (!(r.a->type.layout == p.graph->outputs[0]->type.layout)) return invalid("layouts it does not offer");
  PERI_ASSIGN(const Walk w, plan(p, r));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const Loops& loops = isa == cpu::Isa::kAvx512 ? cpu::quantize::avx512::kLoops : cpu::quantize::avx2::kLoops;
  const Source a = Source::of(p, r.a, c.constants), b = Source::of(p, r.b, c.constants);
  if (!a.known() || !b.known()) return refused("reads a value made inside the region");
  const int64_t all = w.row * w.rows, tasks = (all + kTaskElements - 1) / kTaskElements;
  return TaskInstance::make(tasks, 0, [=, &loops, by = r.pair](int64_t task, const Args& args) {
    const auto *const x = static_cast<const uint8_t*>(a.data(args)), *const z =
                                                                         static_cast<const uint8_t*>(b.data(args));
    auto* const y = static_cast<uint8_t*>(args.out[0]);
    const int64_t end = std::min(all, (task + 1) * kTaskElements);
    for (int64_t at = task * kTaskElements; at < end;) {
      const int64_t within = at % w.row, n = std::min(end - at, w.row - within);
      loops.pair(by, x + at, z + place_of(w, at / w.row) + within * w.b_step, w.b_step, y + at, n);
      at += n;
    }
  });
}
}  // namespace

extern const Entry byte_pairs_entry;
const Entry byte_pairs_entry{{
    .name = "byte_pairs",
    .version = 1,
    .provider = "peri",
    .takes = "sums and products of two tensors of bytes as bytes, by a scale each, with a relu or clip between, one "
             "broadcast, row-major or NHWC",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: u8[2,70,5,9]; input w: u8[2,70,5,9]; const s: f32[] = [0.02]; const z: u8[] = [128]; "
         "const t: f32[] = [0.031]; const v: u8[] = [100]; a = from_bytes(x, s, z); b = from_bytes(w, t, v); c = "
         "add(a, b); y = to_bytes(c, t, z); output y }",
         "graph { input x: i8[3,700]; input w: u8[3,700]; const s: f32[] = [0.5]; const z: i8[] = [3]; const t: f32[] "
         "= [0.25]; const v: u8[] = [101]; const q: f32[] = [0.5]; const o: i8[] = [-7]; a = from_bytes(x, s, z); b = "
         "from_bytes(w, t, v); c = add(a, b); d = relu(c); y = to_bytes(d, q, o); output y }",
         "graph { input x: u8[2,6,9,11]; input w: i8[2,6,1,1]; const s: f32[] = [0.02]; const z: u8[] = [128]; const "
         "t: f32[] = [0.031]; const v: i8[] = [-20]; const q: f32[] = [0.05]; a = from_bytes(x, s, z); b = "
         "from_bytes(w, t, v); c = mul(b, a); y = to_bytes(c, q, z); output y }",
         "graph { input x: i8[5,3,77]; const w: i8[77] = seeded(90, 1); const s: f32[] = [0.02]; const z: i8[] = [0]; "
         "const l: f32[] = [-1.3]; const h: f32[] = [2.1]; a = from_bytes(x, s, z); b = from_bytes(w, s, z); c = "
         "add(a, b); d = clip(c, l, h); y = to_bytes(d, s, z); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
