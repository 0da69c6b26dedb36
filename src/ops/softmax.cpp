// Softmax, log_softmax and hardmax along one axis. Before opset 13 the input was flattened to a matrix at the axis.
#include <algorithm>

#include "ops/reference/reduce.hpp"
#include "ops/reference/unary.hpp"
#include "ops/shape/any_size.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) {
  PERI_TRY(normalize_axis(c.node.i("axis", -1), c.rank(0)));
  return infer_same(c);
}

int64_t axis_of(const ir::Node& node, size_t rank) {
  const int64_t axis = node.i("axis", -1);
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

// How high and how low the exponential of an element may come out, whose distance from the largest has a radius.
struct Reach {
  double high = 0, low = 0;
  Reach(double distance, double radius, double u) {
    if (std::isinf(distance)) return;
    const double r = radius + 4 * u * std::fabs(distance);
    high = std::exp(std::min(distance + r, 600.0));
    low = std::exp(distance - r);
  }
};

// One line of input along the axis: its largest element, the sum of exponentials relative to it, and bounds of that
// sum.
struct Line {
  int64_t first, stride, length;
  double largest = -INFINITY, sum = 0, high = 0, low = 0;
  Line(const RefTensor& x, int64_t axis, int64_t position, double u) {
    stride = strides_of(x.dims)[static_cast<size_t>(axis)];
    length = x.dims[static_cast<size_t>(axis)];
    first = position - position / stride % length * stride;
    for (int64_t k = 0; k < length; ++k) {
      const double v = x.f[static_cast<size_t>(first + k * stride)];
      if (v > largest || std::isnan(v)) largest = v;
      if (std::isnan(largest)) break;
    }
    for (int64_t k = 0; k < length; ++k) {
      const double distance = x.f[static_cast<size_t>(first + k * stride)] - largest;
      sum += std::exp(distance);
      if (u == 0) continue;
      const Reach reach(distance, x.r(first + k * stride), u);
      high += reach.high;
      low += reach.low;
    }
  }
};

// Calls f(line, position) for each position; lines are shared by neighbours where that is cheap to see.
template <class F>
Status along_axis(RefCall& call, F f) {
  const RefTensor& x = *call.in[0];
  const int64_t axis = axis_of(call.node, x.dims.size());
  const int64_t stride = x.dims.empty() ? 1 : strides_of(x.dims)[static_cast<size_t>(axis)],
                length = x.dims.empty() ? 1 : x.dims[static_cast<size_t>(axis)];
  std::vector<std::pair<int64_t, Line>> recent;  // by line start; bounded by the inner stride of one block
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), first = p - p / stride % length * stride;
    const size_t slot = static_cast<size_t>(first % std::min<int64_t>(stride, 4096));
    if (recent.size() <= slot) recent.resize(slot + 1, {-1, Line(x, axis, p, call.u)});
    if (recent[slot].first != first) recent[slot] = {first, Line(x, axis, p, call.u)};
    f(recent[slot].second, p);
  }
  return Ok{};
}

Status softmax(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  return along_axis(call, [&](const Line& l, int64_t p) {
    const double d = x.f[static_cast<size_t>(p)] - l.largest, v = std::exp(d) / l.sum;
    y.f[static_cast<size_t>(p)] = v;
    if (call.u == 0 || !std::isfinite(v)) return;
    // The share of an element is largest when it comes out as high and all others as low as they may.
    const Reach own(d, x.r(p), call.u);
    const double over = own.high + std::max(l.low - own.low, 0.0), under = own.low + std::max(l.high - own.high, 0.0);
    const double most = over > 0 ? own.high / over : 0, least = under > 0 ? own.low / under : 0;
    const double moved = std::min(std::max({most - v, v - least, 0.0}), 1.0);
    const double rounding = call.u * (8 + 4 * std::sqrt(static_cast<double>(l.length)));
    y.radius[static_cast<size_t>(p)] = moved + v * rounding + flushed_below(y.dtype);
  });
}
Status log_softmax(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  return along_axis(call, [&](const Line& l, int64_t p) {
    const double d = x.f[static_cast<size_t>(p)] - l.largest, log_sum = std::log(l.sum), v = d - log_sum;
    y.f[static_cast<size_t>(p)] = v;
    if (call.u == 0 || !std::isfinite(v)) return;
    const double own = call.u * (2 * std::fabs(d) + 4 * std::fabs(log_sum) + std::fabs(v) + std::fabs(l.largest) + 4 +
                                 4 * std::sqrt(static_cast<double>(l.length)));
    const double sums = std::max(std::log(l.high / l.sum), l.low > 0 ? std::log(l.sum / l.low) : INFINITY);
    y.radius[static_cast<size_t>(p)] = x.r(p) + std::max(sums, 0.0) + own;
  });
}
Status hardmax(RefCall& call) {
  const RefTensor& x = *call.in[0];
  return along_axis(call, [&](const Line& l, int64_t p) {
    int64_t best = 0;
    for (int64_t k = 0; k < l.length; ++k) {
      const double v = x.f[static_cast<size_t>(l.first + k * l.stride)];
      if (std::isnan(v)) {
        best = k;
        break;
      }
      if (v > x.f[static_cast<size_t>(l.first + best * l.stride)]) best = k;
    }
    call.out[0].f[static_cast<size_t>(p)] = p == l.first + best * l.stride ? 1 : 0;
  });
}

bool pull(const ir::Node& node, size_t, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const std::vector<int64_t> dims = concrete(*node.in(0));
  pull_lines(dims, axis_of(node, dims.size()), positions, needed);
  return true;
}
Cost cost(const ir::Node& node) {
  const double n = numel_of(node.in(0)), bytes = n * dtype_bits(node.out()->type.dtype) / 8.0;
  return {5 * n, bytes, bytes};  // compare, subtract, exp, add, scale
}

// softmax over all axes from `axis` on: flatten there, work on the last axis, and give the shape back.
Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  if (opset >= 13) return Ok{};
  const int64_t axis = node.i("axis", 1);
  ir::Value* x = node.in(0);
  if (!x) return invalid("%s needs its input", node.op.c_str());
  node.attrs["axis"] = int64_t{-1};
  if (axis == -1 || (x->type.shape && axis == static_cast<int64_t>(x->type.shape->size()) - 1)) return Ok{};
  ir::Value* y = node.out();
  ir::Node* flat = graph.add("flatten", {x}, {{"axis", axis}});
  ir::Node* shape = graph.add("shape", {x});
  ir::Node* back = graph.add("reshape", {nullptr, shape->out()}, {{"allowzero", int64_t{1}}});
  graph.set_input(&node, 0, flat->out());
  graph.replace_uses(y, back->out());
  graph.set_input(back, 0, y);
  const std::string name = y->name;
  graph.rename(y, name + ".flat");
  graph.rename(back->out(), name);
  return Ok{};
}

OpDef softmax_op(std::string_view name, std::string_view onnx, Status (*reference)(RefCall&), bool jumps,
                 std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = {1, 11, 13},
          .inputs = {{"x", kFloats}},
          .outputs = {{"y"}},
          .attrs = {{"axis", AttrKind::kInt, false, "-1"}},
          .upgrade = upgrade,
          .infer = infer,
          .reference = reference,
          .pull = pull,
          .cost = cost,
          .jumps = jumps,
          .anchor = name == "softmax",
          .any_size = any_size_of_one_input,
          .samples = std::move(samples)};
}

#define SOFTMAX_SAMPLES(op)                                           \
  {"graph { input x: f32[2,3,5]; y = " op "(x); output y }",          \
   "graph { input x: f32[2,3,5]; y = " op "(x) {axis=1}; output y }", \
   "graph { input x: f16[4,1]; y = " op "(x) {axis=-2}; output y }",  \
   "graph { input x: f32[0,5]; y = " op "(x); output y }",            \
   "graph { input x: f32[3,0]; y = " op "(x); output y }",            \
   "graph { input x: f64[7]; y = " op "(x) {axis=0}; output y }",     \
   "graph { const x: f32[3,3] = [1000.0, 999.0, -1000.0, -inf, 0.0, 0.0, 1.0, nan, 2.0]; y = " op "(x); output y }"}
}  // namespace

extern const Entry softmax_entry;
const Entry softmax_entry{{
    softmax_op("softmax", "Softmax", softmax, false, SOFTMAX_SAMPLES("softmax")),
    softmax_op("log_softmax", "LogSoftmax", log_softmax, false, SOFTMAX_SAMPLES("log_softmax")),
    softmax_op("hardmax", "Hardmax", hardmax, true, SOFTMAX_SAMPLES("hardmax")),
}};
}  // namespace peri::ops
