// LayerNormalization and RMSNormalization: rows over axes [axis, rank) normalised to unit deviation (or root mean
// square), then scaled and shifted. stash_type is the precision of mean and deviation, which are also outputs of the
// former.
#include "ops/reference/cost.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

// `s` must broadcast to the shape of x without growing it.
Status check_parameter(const Shape& x, const Shape& s, std::string_view name) {
  PERI_ASSIGN(const Shape wide, broadcast(s, x));
  bool same = wide.size() == x.size();
  for (size_t d = 0; same && d < x.size(); ++d) same = !x[d].is_const() || wide[d] == x[d];
  if (!same)
    return invalid("%s does not broadcast to x", std::string(name).c_str())
        .expecting("a shape that broadcasts to " + shape_text(x))
        .but_found(shape_text(s));
  return Ok{};
}

Result<DType> stash_type(const ir::Node& node) {
  switch (node.i("stash_type", 1)) {
    case 1: return DType::kF32;
    case 10: return DType::kF16;
    case 11: return DType::kF64;
    case 16: return DType::kBF16;
    default:
      return invalid("stash_type is not a float type")
          .expecting("1 (float), 10 (float16), 11 (double) or 16 (bfloat16)")
          .but_found(std::to_string(node.i("stash_type", 1)));
  }
}

Status infer(InferContext& c) {
  const Shape& x = c.shape(0);
  PERI_ASSIGN(const int64_t axis, normalize_axis(c.node.i("axis", -1), x.size()));
  PERI_TRY(check_parameter(x, c.shape(1), "scale"));
  if (c.has(2)) PERI_TRY(check_parameter(x, c.shape(2), "bias"));
  PERI_ASSIGN(const DType stash, stash_type(c.node));
  Shape rows(x.begin(), x.begin() + axis);
  rows.resize(x.size(), Dim(1));
  c.set(1, stash, rows);
  c.set(2, stash, std::move(rows));
  c.set(0, c.node.op == "rms_normalization" ? c.dtype(1) : c.dtype(0), x);
  return Ok{};
}

struct Rows {
  int64_t count, length;
  explicit Rows(const ir::Node& node) {
    const std::vector<int64_t> x = concrete(*node.in(0));
    const int64_t axis = *normalize_axis(node.i("axis", -1), x.size());
    count = span_of(x, 0, static_cast<size_t>(axis));
    length = span_of(x, static_cast<size_t>(axis), x.size());
  }
};

template <bool kCentred>
Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  const RefTensor *scale = call.in[1], *shift = call.in.size() > 2 ? call.in[2] : nullptr;
  RefTensor& y = call.out[0];
  if (x.numel() == 0) return Ok{};
  const Rows rows(call.node);
  const double epsilon = call.node.f("epsilon", kDefaultEpsilon), u = stage_roundoff(call);
  const std::vector<int64_t> scale_steps = broadcast_strides(scale->dims, x.dims),
                             shift_steps = shift ? broadcast_strides(shift->dims, x.dims) : scale_steps;
  std::vector<std::pair<int64_t, int64_t>> spans;  // [first, last) into positions that share a row
  for (int64_t n = 0; n < call.count();) {
    const int64_t row = call.position(n) / rows.length;
    int64_t end = n;
    if (call.positions.empty()) {
      end = n + rows.length;
    } else {
      while (end < call.count() && call.position(end) / rows.length == row) ++end;
    }
    spans.emplace_back(n, end);
    n = end;
  }
  parallel_for(call.threads, static_cast<int64_t>(spans.size()), [&](int64_t begin, int64_t stop) {
    for (int64_t k = begin; k < stop; ++k) {
      const auto [first, last] = spans[static_cast<size_t>(k)];
      const int64_t row = call.position(first) / rows.length, base = row * rows.length;
      const Moments m = moments(x, rows.length, kCentred, u, [&](int64_t j) { return base + j; });
      const Near factor = inverse_root(m.square, epsilon, u);
      for (int64_t n = first; n < last; ++n) {
        const int64_t at = call.position(n);
        store(
            y, at,
            normalised(element(&x, at, 0), m.mean, factor, element(scale, broadcast_index(at, x.dims, scale_steps), 1),
                       element(shift, shift ? broadcast_index(at, x.dims, shift_steps) : 0, 0), u));
      }
      if (call.out.size() > 1) store(call.out[1], row, m.mean);
      if (call.out.size() > 2) store(call.out[2], row, factor);
    }
  });
  return Ok{};
}

bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const std::vector<int64_t> x = concrete(*node.in(0)), dims = concrete(*node.in(port));
  PositionSet set(span_of(dims, 0, dims.size()));
  const Rows rows(node);
  const std::vector<int64_t> steps = broadcast_strides(dims, x);
  int64_t held = -1;
  for (int64_t p : positions) {
    if (port > 0) {
      set.add(broadcast_index(p, x, steps));
    } else if (const int64_t row = p / rows.length; row != held) {
      set.add_range(row * rows.length, (row + 1) * rows.length);
      held = row;
    }
  }
  set.list(needed);
  return true;
}

Cost cost(const ir::Node& node) { return cost_per_element(node, node.op == "rms_normalization" ? 4 : 8); }

}  // namespace

extern const Entry layer_normalization_entry;
const Entry layer_normalization_entry{{
    {.name = "layer_normalization",
     .onnx = "LayerNormalization",
     .versions = {1, 17},  // 1: what ONNX Runtime writes into optimised models of older opsets, and runs
     .inputs = {{"x", kFloats},
                {"scale", kFloats, false, false, 0, Role::kScale},
                {"bias", kFloats, true, false, 0, Role::kBias}},
     .outputs = {{"y"}, {"mean", kFloats, true}, {"inv_std_dev", kFloats, true}},
     .attrs = {{"axis", AttrKind::kInt, false, "-1"},
               {"epsilon", AttrKind::kFloat, false, "1e-05"},
               {"stash_type", AttrKind::kInt, false, "1 (float)"}},
     .infer = infer,
     .reference = reference<true>,
     .pull = pull,
     .cost = cost,
     .anchor = true,
     .keeps_range = true,
     .any_size = any_size_of_norm,
     .samples =
         {"graph { input x: f32[2,5,16]; const s: f32[16] = seeded(1.0, 1); const b: f32[16] = seeded(0.5, 2); y = "
          "layer_normalization(x, s, b); output y }",
          "graph { input x: f32[3,4,5]; const s: f32[4,5] = seeded(1.0, 1); y, m, d = layer_normalization(x, s) "
          "{axis=1, epsilon=0.1}; output y; output m; output d }",
          "graph { input x: f32[3,7]; const s: f32[] = [2.0]; y = layer_normalization(x, s) {axis=0}; output y }",
          "graph { input x: f32[4,1]; const s: f32[1] = [2.0]; const b: f32[1] = [0.5]; y = layer_normalization(x, s, "
          "b); output y }",
          "graph { input x: f16[2,64]; const s: f16[64] = seeded(1.0, 1); const b: f16[64] = seeded(0.5, 2); y = "
          "layer_normalization(x, s, b); output y }",
          "graph { input x: f32[0,8]; const s: f32[8] = seeded(1.0, 1); y = layer_normalization(x, s); output y }"}},
    {.name = "rms_normalization",
     .onnx = "RMSNormalization",
     .versions = {23},
     .inputs = {{"x", kFloats}, {"scale", kFloats, false, false, -1, Role::kScale}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, false, "-1"},
               {"epsilon", AttrKind::kFloat, false, "1e-05"},
               {"stash_type", AttrKind::kInt, false, "1 (float)"}},
     .infer = infer,
     .reference = reference<false>,
     .pull = pull,
     .cost = cost,
     .keeps_range = true,
     .any_size = any_size_of_norm,
     .samples =
         {"graph { input x: f32[2,5,16]; const s: f32[16] = seeded(1.0, 1); y = rms_normalization(x, s); output y }",
          "graph { input x: f32[3,4,5]; const s: f32[4,5] = seeded(1.0, 1); y = rms_normalization(x, s) {axis=-2, "
          "epsilon=0.1}; output y }",
          "graph { input x: f16[2,64]; const s: f16[64] = seeded(1.0, 1); y = rms_normalization(x, s); output y }",
          "graph { input x: f32[0,8]; const s: f32[8] = seeded(1.0, 1); y = rms_normalization(x, s); output y }"}},
}};
}  // namespace peri::ops
