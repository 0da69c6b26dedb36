// Reductions: sum, mean, max, min, prod, l1, l2, log_sum, log_sum_exp, sum_square. Of no elements: 0, NaN, lowest,
// highest, 1, 0, 0, -inf, -inf, 0. Integers wrap, but for the sum of a mean, which has 64 bits; mean and root of
// integers truncate.
#include "ops/reference/reduce.hpp"
#include "ops/shape/any_size.hpp"

#include <algorithm>
#include <limits>

#include "ops/reference/binary.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {
enum class Kind { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kLogSum, kLogSumExp, kSumSquare };

// Elements of one reduction in order: value(k) and radius(k).
struct Elements {
  const RefTensor& x;
  int64_t base;
  const std::vector<int64_t>& offsets;
  int64_t count() const { return static_cast<int64_t>(offsets.size()); }
  double value(size_t k) const { return x.f[static_cast<size_t>(base + offsets[k])]; }
  double radius(size_t k) const { return x.r(base + offsets[k]); }
  int64_t integer(size_t k) const { return x.i[static_cast<size_t>(base + offsets[k])]; }
};

// Sum of g(x) with the radius of the sum at round-off u; slope(x, r) bounds |g(x +- r) - g(x)|.
template <class G, class S>
Term sum_of(const Elements& e, double u, G g, S slope) {
  double sum = 0, magnitudes = 0, radius = 0;
  for (size_t k = 0; k < e.offsets.size(); ++k) {
    const double v = g(e.value(k));
    sum = k ? sum + v : v;
    magnitudes += std::fabs(v);
    if (u != 0) radius += slope(e.value(k), e.radius(k));
  }
  return {sum, radius + (e.count() > 1 ? sum_radius(u, e.count(), magnitudes) : 0)};
}
double same_radius(double, double r) { return r; }
double square_radius(double x, double r) { return (2 * std::fabs(x) + r) * r; }

// f of a sum that carries a radius, by its ends.
template <class F>
Term through(Term sum, F f) {
  const double v = f(sum.value), above = std::fabs(f(sum.value + sum.radius) - v),
               below = std::fabs(f(sum.value - sum.radius) - v);
  return {v, std::max(std::isfinite(above) ? above : std::fabs(v), std::isfinite(below) ? below : std::fabs(v))};
}

Term extreme(const Elements& e, bool largest) {
  Term out{largest ? -INFINITY : INFINITY, 0};
  for (size_t k = 0; k < e.offsets.size(); ++k) {
    const double v = e.value(k);
    if (std::isnan(out.value)) break;
    if (std::isnan(v) || (largest ? v > out.value : v < out.value)) out.value = v;
    out.radius = std::max(out.radius, e.radius(k));
  }
  return out;
}
Term product_of(const Elements& e, double u) {
  double v = 1, low = 1, high = 1;  // |v| and the largest magnitude it could have
  for (size_t k = 0; k < e.offsets.size(); ++k) {
    v *= e.value(k);
    low *= std::fabs(e.value(k));
    high *= (std::fabs(e.value(k)) + e.radius(k)) * (1 + 2 * u);
  }
  return {v, high - low};
}
Term log_sum_exp(const Elements& e, double u) {
  const Term top = extreme(e, true);
  if (!std::isfinite(top.value)) return {top.value, 0};
  double sum = 0;
  for (size_t k = 0; k < e.offsets.size(); ++k) sum += std::exp(e.value(k) - top.value);
  const double v = top.value + std::log(sum);
  return {v, top.radius + u * (4 + 2 * std::fabs(top.value) + 4 * std::sqrt(static_cast<double>(e.count())))};
}

Term reduce_floats(Kind kind, const Elements& e, double u) {
  const auto plain = [](double x) { return x; };
  const auto magnitude = [](double x) { return std::fabs(x); };
  const auto square = [](double x) { return x * x; };
  switch (kind) {
    case Kind::kSum: return sum_of(e, u, plain, same_radius);
    case Kind::kMean: {
      const Term t = sum_of(e, u, plain, same_radius);
      const double n = static_cast<double>(e.count());
      return {t.value / n, t.radius / n + 2 * u * std::fabs(t.value / n)};
    }
    case Kind::kMax: return extreme(e, true);
    case Kind::kMin: return extreme(e, false);
    case Kind::kProd: return product_of(e, u);
    case Kind::kL1: return sum_of(e, u, magnitude, same_radius);
    case Kind::kSumSquare: return sum_of(e, u, square, square_radius);
    case Kind::kL2: {
      const Term t = through(sum_of(e, u, square, square_radius), [](double s) { return std::sqrt(std::max(s, 0.0)); });
      return {t.value, t.radius + 2 * u * std::fabs(t.value)};
    }
    case Kind::kLogSum: {
      const Term t = through(sum_of(e, u, plain, same_radius), [](double s) { return std::log(s); });
      return {t.value, t.radius + 4 * u * std::fabs(t.value)};
    }
    case Kind::kLogSumExp: return log_sum_exp(e, u);
  }
  return {};
}

int64_t reduce_ints(Kind kind, const Elements& e) {
  const DType t = e.x.dtype;
  uint64_t sum = 0, squares = 0, magnitudes = 0, prod = 1;
  int64_t largest = int_lowest(t), smallest = int_largest(t);
  double exact = 0, exponentials = 0;
  for (size_t k = 0; k < e.offsets.size(); ++k) {
    const int64_t v = e.integer(k);
    const uint64_t bits = static_cast<uint64_t>(v);
    sum += bits;
    squares += bits * bits;
    magnitudes += is_signed(t) && v < 0 ? uint64_t{0} - bits : bits;
    prod *= bits;
    if (int_less(t, largest, v)) largest = v;
    if (int_less(t, v, smallest)) smallest = v;
    exact += int_value(t, v);
    exponentials += std::exp(int_value(t, v));
  }
  const int64_t wrapped = wrap(t, static_cast<int64_t>(sum));
  switch (kind) {
    case Kind::kSum: return wrapped;
    case Kind::kMean:
      return e.count() == 0     ? 0
             : t == DType::kU64 ? static_cast<int64_t>(sum / static_cast<uint64_t>(e.count()))
                                : static_cast<int64_t>(sum) / e.count();
    case Kind::kMax: return largest;
    case Kind::kMin: return smallest;
    case Kind::kProd: return wrap(t, static_cast<int64_t>(prod));
    case Kind::kL1: return wrap(t, static_cast<int64_t>(magnitudes));
    case Kind::kL2: return int_from(t, std::sqrt(int_value(t, wrap(t, static_cast<int64_t>(squares)))));
    case Kind::kLogSum: return int_from(t, std::log(exact));
    case Kind::kLogSumExp: return int_from(t, std::log(exponentials));
    case Kind::kSumSquare: return wrap(t, static_cast<int64_t>(squares));
  }
  return 0;
}

template <Kind K>
Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  PERI_ASSIGN(const std::vector<int64_t> axes, reduced_axes(call.node, x.dims.size()));
  const Reduction r(x.dims, axes);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    const size_t at = static_cast<size_t>(p);
    const Elements e{x, r.base(p), r.offsets()};
    if (!x.floating()) {
      y.i[at] = reduce_ints(K, e);
      continue;
    }
    const Term t = reduce_floats(K, e, call.u);
    y.f[at] = t.value;
    if (call.u != 0 && std::isfinite(t.value)) y.radius[at] = std::isnan(t.radius) ? INFINITY : t.radius;
  }
  return Ok{};
}

// Content of known elements reduced along known axes.
template <Kind K>
void reduce_content(InferContext& c, const std::vector<int64_t>& axes) {
  if (K != Kind::kSum && K != Kind::kProd && K != Kind::kMax && K != Kind::kMin) return;
  const auto in = known_input(c, 0);
  const auto dims = countable(c.out[0]);
  if (!in || !dims || in->elements.empty() || !contains(kContentTypes, c.dtype(0))) return;
  const Reduction r(in->dims, axes);
  std::vector<Dim> out;
  for (int64_t p = 0; p < numel_of(*dims); ++p) {
    const auto element = [&](int64_t offset) { return in->elements[static_cast<size_t>(r.base(p) + offset)]; };
    Dim v = element(r.offsets()[0]);
    for (size_t k = 1; k < r.offsets().size(); ++k) {
      const Dim d = element(r.offsets()[k]);
      v = K == Kind::kSum ? v + d : K == Kind::kProd ? v * d : K == Kind::kMax ? peri::max(v, d) : peri::min(v, d);
    }
    if (v.is_poison() || !fits(c.dtype(0), v)) return;
    out.push_back(std::move(v));
  }
  c.set_content(0, std::move(out));
}
// Axes that are known only when the model runs leave the rank, at most.
Result<Shape> unknown_axes(InferContext& c) {
  if (c.node.i("keepdims", 1) != 0) return fresh_shape(c, c.rank(0), "reduced");
  if (c.rank(1) != 1 || !c.shape(1)[0].is_const() || c.shape(1)[0].value() > static_cast<int64_t>(c.rank(0)))
    return unsupported("the axes of a reduction must be known").advise("export the model with fixed axes");
  return fresh_shape(c, c.rank(0) - static_cast<size_t>(c.shape(1)[0].value()), "reduced");
}
template <Kind K>
Status infer(InferContext& c) {
  if (c.has(1) && !numbers_of(c, 1)) {
    PERI_ASSIGN(Shape s, unknown_axes(c));
    c.set(0, c.dtype(0), std::move(s));
    return Ok{};
  }
  PERI_ASSIGN(const std::vector<int64_t> axes, reduced_axes(c.node, c.rank(0)));
  c.set(0, c.dtype(0), reduced_shape(c.shape(0), axes, c.node.i("keepdims", 1) != 0));
  reduce_content<K>(c, axes);
  return Ok{};
}

Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  return opset < (node.op == "reduce_sum" ? 13 : 18) ? ints_to_input(graph, node, "axes", 1) : Status(Ok{});
}
Cost cost(const ir::Node& node) {
  const double n = numel_of(node.in(0)), bytes = dtype_bits(node.out()->type.dtype) / 8.0;
  return {n, n * bytes, numel_of(node.out()) * bytes};
}

template <Kind K>
OpDef reduce_op(std::string_view name, std::string_view onnx, std::vector<int> versions,
                std::vector<std::string_view> samples) {
  const bool order = K == Kind::kMax || K == Kind::kMin;
  return {.name = name,
          .onnx = onnx,
          .versions = std::move(versions),
          .inputs = {{"x", order ? kNumbers | kBools : kNumbers}, {"axes", types({DType::kI64}), true}},
          .outputs = {{"y"}},
          .attrs = {{"keepdims", AttrKind::kInt, false, "1"}, {"noop_with_empty_axes", AttrKind::kInt, false, "0"}},
          .upgrade = upgrade,
          .infer = infer<K>,
          .reference = reference<K>,
          .pull = pull_reduced,
          .cost = cost,
          .anchor = K == Kind::kMean,
          .moves = order,
          .keeps_range = K == Kind::kMean,
          .any_size = any_size_of_reduction,
          .samples = std::move(samples)};
}

#define REDUCE_SAMPLES(op)                                                                              \
  {"graph { input x: f32[2,3,5]; const a: i64[1] = [1]; y = " op "(x, a); output y }",                  \
   "graph { input x: f32[2,3,5]; y = " op "(x) {keepdims=0}; output y }",                               \
   "graph { input x: f32[2,3,5]; const a: i64[2] = [-1, 0]; y = " op "(x, a) {keepdims=0}; output y }", \
   "graph { input x: f32[2,3]; y = " op "(x) {noop_with_empty_axes=1}; output y }",                     \
   "graph { input x: f32[]; y = " op "(x); output y }",                                                 \
   "graph { input x: f32[2,0]; const a: i64[1] = [1]; y = " op "(x, a); output y }",                    \
   "graph { input x: i32[3,4]; const a: i64[1] = [0]; y = " op "(x, a); output y }",                    \
   "graph { input x: f16[9]; const a: i64[0] = []; y = " op "(x, a); output y }",                       \
   "graph { const x: f32[2,3] = [nan, 1.0, 2.0, inf, 1.0, -inf]; const a: i64[1] = [1]; y = " op "(x, a); output y }"}
}  // namespace

extern const Entry reduce_entry;
const Entry reduce_entry{{
    reduce_op<Kind::kSum>("reduce_sum", "ReduceSum", {1, 11, 13}, REDUCE_SAMPLES("reduce_sum")),
    reduce_op<Kind::kMean>("reduce_mean", "ReduceMean", {1, 11, 13, 18}, REDUCE_SAMPLES("reduce_mean")),
    reduce_op<Kind::kMax>("reduce_max", "ReduceMax", {1, 11, 12, 13, 18, 20}, REDUCE_SAMPLES("reduce_max")),
    reduce_op<Kind::kMin>("reduce_min", "ReduceMin", {1, 11, 12, 13, 18, 20}, REDUCE_SAMPLES("reduce_min")),
    reduce_op<Kind::kProd>("reduce_prod", "ReduceProd", {1, 11, 13, 18}, REDUCE_SAMPLES("reduce_prod")),
    reduce_op<Kind::kL1>("reduce_l1", "ReduceL1", {1, 11, 13, 18}, REDUCE_SAMPLES("reduce_l1")),
    reduce_op<Kind::kL2>("reduce_l2", "ReduceL2", {1, 11, 13, 18}, REDUCE_SAMPLES("reduce_l2")),
    reduce_op<Kind::kLogSum>("reduce_log_sum", "ReduceLogSum", {1, 11, 13, 18, 28}, REDUCE_SAMPLES("reduce_log_sum")),
    reduce_op<Kind::kLogSumExp>("reduce_log_sum_exp", "ReduceLogSumExp", {1, 11, 13, 18, 28},
                                REDUCE_SAMPLES("reduce_log_sum_exp")),
    reduce_op<Kind::kSumSquare>("reduce_sum_square", "ReduceSumSquare", {1, 11, 13, 18},
                                REDUCE_SAMPLES("reduce_sum_square")),
}};
}  // namespace peri::ops
