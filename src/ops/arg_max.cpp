// Arg_max and arg_min: the index of the extreme element along an axis, the first or the last of equals; a NaN is
// extreme.
#include "ops/reference/reduce.hpp"

namespace peri::ops {
namespace {
Result<std::vector<int64_t>> axis_of(const ir::Node& node, size_t rank) {
  PERI_ASSIGN(const int64_t axis, normalize_axis(node.i("axis", 0), rank));
  return std::vector<int64_t>{axis};
}

Status infer(InferContext& c) {
  PERI_ASSIGN(const std::vector<int64_t> axes, axis_of(c.node, c.rank(0)));
  if (c.shape(0)[static_cast<size_t>(axes[0])].is_const(0))
    return invalid("%s over an axis without elements", c.node.op.c_str());
  c.set(0, DType::kI64, reduced_shape(c.shape(0), axes, c.node.i("keepdims", 1) != 0));
  return Ok{};
}

template <bool Largest>
Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  PERI_ASSIGN(const std::vector<int64_t> axes, axis_of(call.node, x.dims.size()));
  const Reduction r(x.dims, axes);
  const bool last = call.node.i("select_last_index", 0) != 0;
  // Whether element a is more extreme than b.
  const auto beats = [&](int64_t a, int64_t b) {
    const size_t i = static_cast<size_t>(a), k = static_cast<size_t>(b);
    if (!x.floating()) return Largest ? int_less(x.dtype, x.i[k], x.i[i]) : int_less(x.dtype, x.i[i], x.i[k]);
    if (std::isnan(x.f[k])) return false;
    return std::isnan(x.f[i]) || (Largest ? x.f[i] > x.f[k] : x.f[i] < x.f[k]);
  };
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), base = r.base(p);
    int64_t best = 0;
    for (int64_t k = 1; k < r.count(); ++k) {
      const int64_t candidate = base + r.offsets()[static_cast<size_t>(k)],
                    held = base + r.offsets()[static_cast<size_t>(best)];
      if (beats(candidate, held) || (last && !beats(held, candidate))) best = k;
    }
    call.out[0].i[static_cast<size_t>(p)] = best;
  }
  return Ok{};
}

bool pull(const ir::Node& node, size_t, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const std::vector<int64_t> in = concrete(*node.in(0));
  auto axes = axis_of(node, in.size());
  if (!axes.ok()) return false;
  const Reduction r(in, *axes);
  needed->clear();
  for (int64_t p : positions)
    for (int64_t o : r.offsets()) needed->push_back(r.base(p) + o);
  sort_unique(needed);
  return true;
}
Cost cost(const ir::Node& node) {
  const double n = numel_of(node.in(0));
  return {n, n * dtype_bits(node.in(0)->type.dtype) / 8.0, numel_of(node.out()) * 8};
}

OpDef arg_op(std::string_view name, std::string_view onnx, Status (*reference)(RefCall&),
             std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = {1, 11, 12, 13},
          .inputs = {{"x", kNumbers}},
          .outputs = {{"y"}},
          .attrs = {{"axis", AttrKind::kInt, false, "0"},
                    {"keepdims", AttrKind::kInt, false, "1"},
                    {"select_last_index", AttrKind::kInt, false, "0"}},
          .infer = infer,
          .reference = reference,
          .pull = pull,
          .cost = cost,
          .jumps = true,
          .samples = std::move(samples)};
}
#define ARG_SAMPLES(op)                                                                                               \
  {"graph { input x: f32[2,3,5]; y = " op "(x); output y }",                                                          \
   "graph { input x: f32[2,3,5]; y = " op "(x) {axis=-1, keepdims=0}; output y }",                                    \
   "graph { const x: i8[2,4] = [1, 3, 3, -128, 0, 0, 0, 0]; y = " op "(x) {axis=1, select_last_index=1}; output y }", \
   "graph { const x: f32[2,4] = [1.0, nan, 3.0, nan, inf, -inf, inf, -inf]; y = " op "(x) {axis=1}; output y }",      \
   "graph { const x: u64[3] = [18446744073709551615, 5, 0]; y = " op "(x); output y }",                               \
   "graph { input x: f16[3,0]; y = " op "(x); output y }"}
}  // namespace

extern const Entry arg_max_entry;
const Entry arg_max_entry{{
    arg_op("arg_max", "ArgMax", reference<true>, ARG_SAMPLES("arg_max")),
    arg_op("arg_min", "ArgMin", reference<false>, ARG_SAMPLES("arg_min")),
}};
}  // namespace peri::ops
