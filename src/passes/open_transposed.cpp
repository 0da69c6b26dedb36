// Pass open_transposed: a transposed convolution whose weights or bias are computed becomes a convolution into the
// channels of all its phases, which are then put beside each other, or one of its input with zeros between the
// elements; and a sum.
#include <algorithm>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// One spatial axis. The window of the convolution is that of the transposed one, mirrored.
struct Axis {
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t cut = 0, longer = 0;  // the result begins behind `cut` elements and is so much longer than input times stride

  // Zeros around the stretched input, which ends with stride - 1 of them; < 0: it is cut.
  int64_t begin() const { return (size - 1) * dilation - cut; }
  int64_t end() const { return longer + cut; }

  // By phases: a phase is every stride-th element of the result, and has every stride-th tap. Zeros around the input
  // such that the phases hold no element before or behind the result that they need not hold.
  bool has_phases() const { return dilation == 1 && size % stride == 0; }  // as many taps in each
  int64_t taps() const { return size / stride; }
  int64_t phase_begin() const { return taps() - 1 - cut / stride; }
  int64_t phase_end() const {
    const int64_t last = longer - 1 + cut;
    return (last >= 0 ? last / stride : -((stride - 1 - last) / stride)) + 1;
  }
  // Of the phases beside each other, elements before and behind the result.
  int64_t before() const { return cut % stride; }
  int64_t behind() const { return (phase_begin() + phase_end() - taps() + 1) * stride - longer - before(); }
};

bool is_same(const ir::Node& n) { return n.s("auto_pad", "NOTSET").starts_with("SAME"); }

// Where the output begins and ends, as ops/conv_transpose.cpp says. None: the place hangs on an open size.
std::optional<Axis> axis_of(const ir::Node& n, size_t d) {
  const Dim &x = (*n.in(0)->type.shape)[d + 2], &y = (*n.out()->type.shape)[d + 2], &k = (*n.in(1)->type.shape)[d + 2];
  if (!k.is_const()) return std::nullopt;
  Axis a{.size = k.value(), .stride = n.ints("strides", {1, 1})[d], .dilation = n.ints("dilations", {1, 1})[d]};
  const Dim longer = y - x * Dim(a.stride);
  if (!longer.is_const()) return std::nullopt;
  a.longer = longer.value();
  if (n.has("output_shape") || is_same(n)) {  // the padding follows from the extent
    const int64_t extra = n.ints("output_padding", {0, 0})[d], reach = (a.size - 1) * a.dilation + 1,
                  total = std::max<int64_t>(reach + extra - a.stride - a.longer, 0);
    a.cut = n.s("auto_pad", "NOTSET") == "SAME_UPPER" ? total / 2 : total - total / 2;
  } else if (n.s("auto_pad", "NOTSET") == "NOTSET") {
    a.cut = n.ints("pads", {0, 0, 0, 0})[d];
  }
  return a;
}

// Mirrored along both spatial axes.
Result<ir::Value*> mirrored(Rewriter& w, ir::Value* v) {
  if ((*v->type.shape)[2].is_const(1) && (*v->type.shape)[3].is_const(1)) return v;
  constexpr int64_t kLast = -1, kBeforeFirst = INT32_MIN;  // as exporters write a slice to the first element
  return w.make("slice",
                {v, w.ints({kLast, kLast}, "start"), w.ints({kBeforeFirst, kBeforeFirst}, "end"),
                 w.ints({2, 3}, "axes"), w.ints({-1, -1}, "steps")},
                {}, v);
}

// [in, out / group, kh, kw] -> [out, in / group, kh, kw], mirrored along both spatial axes.
Result<ir::Value*> turned(Rewriter& w, ir::Value* v, int64_t group) {
  const Shape from = *v->type.shape;
  if (group > 1) {
    PERI_ASSIGN(v, w.reshape(v, {Dim(group), Dim(from[0].value() / group), from[1], from[2], from[3]}, v));
    PERI_ASSIGN(v, w.transpose(v, {0, 2, 1, 3, 4}, v));
    PERI_ASSIGN(v, w.reshape(v, {from[1] * Dim(group), Dim(from[0].value() / group), from[2], from[3]}, v));
  } else {
    PERI_ASSIGN(v, w.transpose(v, {1, 0, 2, 3}, v));
  }
  return mirrored(w, v);
}

// With zeros behind each element.
Result<ir::Value*> stretched(Rewriter& w, ir::Value* v, const Axis& h, const Axis& x) {
  if (h.stride == 1 && x.stride == 1) return v;
  const Shape s = *v->type.shape;
  const ir::Value* const like = v;
  PERI_ASSIGN(v, w.reshape(v, {s[0], s[1], s[2], Dim(1), s[3], Dim(1)}, like));
  PERI_ASSIGN(
      v, w.make("pad", {v, w.ints({0, 0, 0, 0, 0, 0, 0, 0, 0, h.stride - 1, 0, x.stride - 1}, "between")}, {}, like));
  return w.reshape(v, {s[0], s[1], s[2] * Dim(h.stride), s[3] * Dim(x.stride)}, like);
}

Result<ir::Value*> convolved(Rewriter& w, const ir::Node& n, ir::Value* x, ir::Value* weights,
                             std::vector<int64_t> pads, std::vector<int64_t> dilations) {
  if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p < 0; })) {
    PERI_ASSIGN(x, w.make("pad", {x, w.ints({0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]}, "around")}, {}, x));
    pads.assign(4, 0);
  }
  return w.make("conv", {x, weights},
                {{"dilations", std::move(dilations)}, {"group", n.i("group", 1)}, {"pads", std::move(pads)}}, n.out());
}

// Zeros between the elements: strides cost products with them.
Result<ir::Value*> by_zeros(Rewriter& w, const ir::Node& n, const Axis& h, const Axis& v) {
  PERI_ASSIGN(ir::Value * x, stretched(w, n.in(0), h, v));
  PERI_ASSIGN(ir::Value * weights, turned(w, n.in(1), n.i("group", 1)));
  return convolved(w, n, x, weights, {h.begin(), v.begin(), h.end(), v.end()}, {h.dilation, v.dilation});
}

// [in, out / group, kh, kw] -> [out * phases, in / group, taps, taps], mirrored along both spatial axes.
Result<ir::Value*> phase_weights(Rewriter& w, ir::Value* v, int64_t group, const Axis& h, const Axis& x) {
  const int64_t in = (*v->type.shape)[0].value() / group;
  const Dim out = (*v->type.shape)[1];
  const ir::Value* const like = v;
  PERI_ASSIGN(
      v, w.reshape(v, {Dim(group), Dim(in), out, Dim(h.taps()), Dim(h.stride), Dim(x.taps()), Dim(x.stride)}, like));
  PERI_ASSIGN(v, w.transpose(v, {0, 2, 4, 6, 1, 3, 5}, like));
  PERI_ASSIGN(v, w.reshape(v, {out * Dim(group * h.stride * x.stride), Dim(in), Dim(h.taps()), Dim(x.taps())}, like));
  return mirrored(w, v);
}

Result<ir::Value*> by_phases(Rewriter& w, const ir::Node& n, const Axis& h, const Axis& v) {
  PERI_ASSIGN(ir::Value * weights, phase_weights(w, n.in(1), n.i("group", 1), h, v));
  PERI_ASSIGN(ir::Value * y, convolved(w, n, n.in(0), weights,
                                       {h.phase_begin(), v.phase_begin(), h.phase_end(), v.phase_end()}, {1, 1}));
  const Shape s = *y->type.shape;
  const Dim out = (*n.out()->type.shape)[1];
  PERI_ASSIGN(y, w.reshape(y, {s[0], out, Dim(h.stride), Dim(v.stride), s[2], s[3]}, n.out()));
  PERI_ASSIGN(y, w.transpose(y, {0, 1, 4, 2, 5, 3}, n.out()));
  PERI_ASSIGN(y, w.reshape(y, {s[0], out, s[2] * Dim(h.stride), s[3] * Dim(v.stride)}, n.out()));
  if (h.before() + h.behind() + v.before() + v.behind() == 0) return y;
  const auto end = [](const Axis& a) { return a.behind() > 0 ? -a.behind() : int64_t{INT32_MAX}; };
  return w.make("slice",
                {y, w.ints({h.before(), v.before()}, "start"), w.ints({end(h), end(v)}, "end"), w.ints({2, 3}, "axes")},
                {}, n.out());
}

Result<ir::Value*> opened(Rewriter& w, ir::Node* n, bool computed, const Axis& h, const Axis& v) {
  ir::Value *bias = n->in(2), *y = nullptr;
  if (!computed) {
    PERI_ASSIGN(y, w.make("conv_transpose", {n->in(0), n->in(1)}, n->attrs, n->out()));
  } else if (h.has_phases() && v.has_phases() && h.stride * v.stride > 1) {
    PERI_ASSIGN(y, by_phases(w, *n, h, v));
  } else {
    PERI_ASSIGN(y, by_zeros(w, *n, h, v));
  }
  if (!bias) return y;
  PERI_ASSIGN(bias, w.reshape(bias, {(*n->out()->type.shape)[1], Dim(1), Dim(1)}, bias));
  return w.make("add", {y, bias}, {}, n->out());
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "conv_transpose" || !n->in(0)->type.known() || n->in(0)->type.rank() != 4 || !n->in(1)->type.known())
    return false;
  if (n->out()->type.dtype != DType::kF32 || !n->in(1)->type.shape->front().is_const()) return false;
  const bool computed = !n->in(1)->constant || n->in(0)->constant;
  if (!computed && (!n->in(2) || n->in(2)->constant)) return false;
  const auto h = axis_of(*n, 0), v = axis_of(*n, 1);
  if (!h || !v) return false;
  w.standing_for({n});
  auto y = opened(w, n, computed, *h, *v);
  if (!y.ok() && y.error().kind == ErrorKind::kRefused) return false;  // of several sizes that the data decide
  if (!y.ok()) return std::move(y).error();
  w.replace(n->out(), *y);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "open_transposed", rule); }

}  // namespace

extern const Entry open_transposed_entry;
const Entry open_transposed_entry{{
    .name = "open_transposed",
    .contract =
        "No transposed convolution of float32 images whose weights are computed is left, where its padding does "
        "not hang on an open size: it is a convolution into the channels of all phases of its strides, which "
        "are then put beside each other; of windows that no stride divides, one of the input with zeros between its "
        "elements. A bias that is computed is a sum. It stands behind lift_windows.",
    .follows = {"lift_windows"},
    .run = run,
    .examples =
        {{"phases of a stride",
          "graph { input x: f32[n,2,h,5]; input k: f32[2,3,4,1]; y = conv_transpose(x, k) {strides=[2, 1], pads=[1, "
          "0, 1, 0]}; output y }",
          "graph { input x: f32[n,2,h,5]; input k: f32[2,3,4,1]; const a: i64[7] = [1, 2, 3, 2, 2, 1, 1]; const b: "
          "i64[4] = [6, 2, 2, 1]; const s: i64[2] = [-1, -1]; const e: i64[2] = [-2147483648, -2147483648]; const "
          "i: i64[2] = [2, 3]; const t: i64[2] = [-1, -1]; const f: i64[2] = [1, 0]; const l: i64[2] = [-1, "
          "2147483647]; const j: i64[2] = [2, 3]; k1 = reshape(k, a); k2 = transpose(k1) {perm=[0, 2, 4, 6, 1, 3, "
          "5]}; k3 = reshape(k2, b); m = slice(k3, s, e, i, t); y1 = conv(x, m) {dilations=[1, 1], group=1, "
          "pads=[1, 0, 1, 0]}; d = dims_constant() {value=dims[n,3,2,1,h + 1,5]}; y2 = reshape(y1, d); y3 = "
          "transpose(y2) {perm=[0, 1, 4, 2, 5, 3]}; g = dims_constant() {value=dims[n,3,2*h + 2,5]}; y4 = "
          "reshape(y3, g); y = slice(y4, f, l, j); output y }"},
         {"a window that no stride divides",
          "graph { input x: f32[n,2,h,5]; input k: f32[2,3,3,1]; y = conv_transpose(x, k) {strides=[2, 1]}; output "
          "y }",
          "graph { input x: f32[n,2,h,5]; input k: f32[2,3,3,1]; const a: i64[12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, "
          "0, 0]; const s: i64[2] = [-1, -1]; const e: i64[2] = [-2147483648, -2147483648]; const i: i64[2] = [2, "
          "3]; const t: i64[2] = [-1, -1]; d = dims_constant() {value=dims[n,2,h,1,5,1]}; r = reshape(x, d); p = "
          "pad(r, a); f = dims_constant() {value=dims[n,2,2*h,5]}; q = reshape(p, f); w = transpose(k) {perm=[1, 0, "
          "2, 3]}; m = slice(w, s, e, i, t); y = conv(q, m) {dilations=[1, 1], group=1, pads=[2, 0, 1, 0]}; output "
          "y }"},
         {"a bias of an input",
          "graph { input x: f32[2,1,3,3]; const k: f32[1,1,3,3] = seeded(1.0, 1); input b: f32[1]; y = "
          "conv_transpose(x, k, b) {strides=[2, 2]}; output y }",
          "graph { input x: f32[2,1,3,3]; const k: f32[1,1,3,3] = seeded(1.0, 1); input b: f32[1]; const s: i64[3] = "
          "[1, 1, 1]; a = conv_transpose(x, k) {strides=[2, 2]}; c = reshape(b, s); y = add(a, c); output y }"}},
}};

}  // namespace peri::passes
