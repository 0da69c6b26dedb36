// Cum_sum and cum_prod: running sum or product along an axis; `exclusive` excludes the element itself, `reverse` runs
// from the end.
#include "ops/reference/reduce.hpp"
#include "ops/reference/unary.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) {
  if (c.rank(1) != 0 && !(c.rank(1) == 1 && c.shape(1)[0].is_const(1)))
    return invalid("the axis of %s must be a scalar", c.node.op.c_str()).but_found(shape_text(c.shape(1)));
  if (const std::vector<Dim>* axis = c.known(1); axis && (*axis)[0].is_const())
    PERI_TRY(normalize_axis((*axis)[0].value(), c.rank(0)));
  return infer_same(c);
}

struct Running {
  double value, magnitudes, radius;
  uint64_t integer;
};

template <bool Product>
Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  if (x.dims.empty()) return invalid("%s of a scalar has no axis", call.node.op.c_str());
  PERI_ASSIGN(const int64_t axis, normalize_axis(call.in[1]->i[0], x.dims.size()));
  const bool exclusive = call.node.i("exclusive", 0) != 0, reverse = call.node.i("reverse", 0) != 0;
  const int64_t stride = strides_of(x.dims)[static_cast<size_t>(axis)], length = x.dims[static_cast<size_t>(axis)];
  std::vector<int64_t> lines;
  for (int64_t n = 0; n < call.count(); ++n)
    lines.push_back(call.position(n) - call.position(n) / stride % length * stride);
  sort_unique(&lines);
  for (int64_t line : lines) {
    Running run{Product ? 1.0 : 0.0, Product ? 1.0 : 0.0, 0, Product ? 1u : 0u};
    for (int64_t k = 0; k < length; ++k) {
      const int64_t at = line + (reverse ? length - 1 - k : k) * stride;
      const size_t e = static_cast<size_t>(at);
      const auto write = [&](int64_t terms) {
        if (!y.floating()) {
          y.i[e] = wrap(y.dtype, static_cast<int64_t>(run.integer));
          return;
        }
        y.f[e] = run.value;
        if (call.u == 0 || !std::isfinite(run.value)) return;
        y.radius[e] = Product ? run.magnitudes - std::fabs(run.value)
                              : run.radius + (terms > 1 ? sum_radius(call.u, terms, run.magnitudes) : 0);
      };
      if (exclusive) write(k);
      if (x.floating()) {
        const double v = x.f[e], r = x.r(at);
        run.value = Product ? run.value * v : run.value + v;
        run.magnitudes =
            Product ? run.magnitudes * (std::fabs(v) + r) * (1 + 2 * call.u) : run.magnitudes + std::fabs(v);
        run.radius += r;
      } else {
        run.integer =
            Product ? run.integer * static_cast<uint64_t>(x.i[e]) : run.integer + static_cast<uint64_t>(x.i[e]);
      }
      if (!exclusive) write(k + 1);
    }
  }
  return Ok{};
}

bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const auto axis = known_ints(node.in(1));
  if (port != 0 || !axis || axis->empty()) return false;
  const std::vector<int64_t> dims = concrete(*node.in(0));
  auto normal = normalize_axis((*axis)[0], dims.size());
  if (!normal.ok()) return false;
  pull_lines(dims, *normal, positions, needed);
  return true;
}

std::vector<Dim> index_ends(const ir::Node& node) {
  return node.in(0)->type.known() ? std::vector<Dim>{static_cast<int64_t>(node.in(0)->type.rank())}
                                  : std::vector<Dim>();
}

OpDef running_op(std::string_view name, std::string_view onnx, std::vector<int> versions, Status (*reference)(RefCall&),
                 std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = std::move(versions),
          .inputs = {{"x", kNumbers}, {"axis", kIndex, false, false, -1, Role::kIndex}},
          .outputs = {{"y"}},
          .attrs = {{"exclusive", AttrKind::kInt, false, "0"}, {"reverse", AttrKind::kInt, false, "0"}},
          .infer = infer,
          .reference = reference,
          .pull = pull,
          .index_ends = index_ends,
          .samples = std::move(samples)};
}
#define RUNNING_SAMPLES(op)                                                                                   \
  {"graph { input x: f32[2,3,5]; const a: i64[] = [1]; y = " op "(x, a); output y }",                         \
   "graph { input x: f32[5]; const a: i32[] = [0]; y = " op "(x, a) {exclusive=1}; output y }",               \
   "graph { input x: i32[3,4]; const a: i64[1] = [-1]; y = " op "(x, a) {reverse=1}; output y }",             \
   "graph { input x: f64[3,4]; const a: i64[] = [-2]; y = " op "(x, a) {reverse=1, exclusive=1}; output y }", \
   "graph { input x: f16[2,0]; const a: i64[] = [1]; y = " op "(x, a); output y }"}
}  // namespace

extern const Entry cum_sum_entry;
const Entry cum_sum_entry{{
    running_op("cum_sum", "CumSum", {11, 14}, reference<false>, RUNNING_SAMPLES("cum_sum")),
    running_op("cum_prod", "CumProd", {26}, reference<true>, RUNNING_SAMPLES("cum_prod")),
}};
}  // namespace peri::ops
