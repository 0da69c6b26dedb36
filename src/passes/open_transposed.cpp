// Pass open_transposed: a transposed convolution whose weights or bias are computed becomes a convolution of its input
// with zeros between the elements, and a sum.
#include <algorithm>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// One spatial axis. The window of the convolution is that of the transposed one, mirrored.
struct Axis {
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t begin = 0, end = 0;  // zeros around the stretched input, which ends with stride - 1 of them; < 0: it is cut
};

bool is_same(const ir::Node& n) { return n.s("auto_pad", "NOTSET").starts_with("SAME"); }

// Where the output begins and ends, as ops/conv_transpose.cpp says. None: the place hangs on an open size.
std::optional<Axis> axis_of(const ir::Node& n, size_t d) {
  const Dim &x = (*n.in(0)->type.shape)[d + 2], &y = (*n.out()->type.shape)[d + 2], &k = (*n.in(1)->type.shape)[d + 2];
  if (!k.is_const()) return std::nullopt;
  Axis a{.size = k.value(), .stride = n.ints("strides", {1, 1})[d], .dilation = n.ints("dilations", {1, 1})[d]};
  const int64_t reach = (a.size - 1) * a.dilation + 1;
  const Dim longer = y - x * Dim(a.stride);
  if (!longer.is_const()) return std::nullopt;
  int64_t pad = 0;
  if (n.has("output_shape") || is_same(n)) {  // the padding follows from the extent
    const int64_t extra = n.ints("output_padding", {0, 0})[d],
                  total = std::max<int64_t>(reach + extra - a.stride - longer.value(), 0);
    pad = n.s("auto_pad", "NOTSET") == "SAME_UPPER" ? total / 2 : total - total / 2;
  } else if (n.s("auto_pad", "NOTSET") == "NOTSET") {
    pad = n.ints("pads", {0, 0, 0, 0})[d];
  }
  a.begin = reach - 1 - pad;
  a.end = longer.value() + pad;
  return a;
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
  if (from[2].is_const(1) && from[3].is_const(1)) return v;
  constexpr int64_t kLast = -1, kBeforeFirst = INT32_MIN;  // as exporters write a slice to the first element
  return w.make("slice",
                {v, w.ints({kLast, kLast}, "start"), w.ints({kBeforeFirst, kBeforeFirst}, "end"),
                 w.ints({2, 3}, "axes"), w.ints({-1, -1}, "steps")},
                {}, v);
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

Result<ir::Value*> opened(Rewriter& w, ir::Node* n, bool computed, const Axis& h, const Axis& v) {
  ir::Value *x = n->in(0), *weights = n->in(1), *bias = n->in(2), *y = nullptr;
  if (!computed) {
    PERI_ASSIGN(y, w.make("conv_transpose", {x, weights}, n->attrs, n->out()));
  } else {
    PERI_ASSIGN(x, stretched(w, x, h, v));
    std::vector<int64_t> pads = {h.begin, v.begin, h.end, v.end};
    if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p < 0; })) {
      PERI_ASSIGN(x, w.make("pad", {x, w.ints({0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]}, "around")}, {}, x));
      pads.assign(4, 0);
    }
    PERI_ASSIGN(weights, turned(w, weights, n->i("group", 1)));
    PERI_ASSIGN(y, w.make("conv", {x, weights},
                          {{"dilations", std::vector<int64_t>{h.dilation, v.dilation}},
                           {"group", n->i("group", 1)},
                           {"pads", std::move(pads)}},
                          n->out()));
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
        "not hang on an open size: it is a convolution with the mirrored weights of the input with zeros between "
        "its elements. A bias that is computed is a sum. It stands behind lift_windows.",
    .follows = {"lift_windows"},
    .run = run,
    .examples =
        {{"weights of an input",
          "graph { input x: f32[n,2,h,5]; input k: f32[2,3,2,1]; y = conv_transpose(x, k) {strides=[2, 1]}; output y }",
          "graph { input x: f32[n,2,h,5]; input k: f32[2,3,2,1]; const a: i64[12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, "
          "0]; const s: i64[2] = [-1, -1]; const e: i64[2] = [-2147483648, -2147483648]; const i: i64[2] = [2, 3]; "
          "const t: i64[2] = [-1, -1]; d = dims_constant() {value=dims[n,2,h,1,5,1]}; r = reshape(x, d); p = pad(r, "
          "a); f = dims_constant() {value=dims[n,2,2*h,5]}; q = reshape(p, f); w = transpose(k) {perm=[1, 0, 2, 3]}; "
          "m = slice(w, s, e, i, t); y = conv(q, m) {dilations=[1, 1], group=1, pads=[1, 0, 0, 0]}; output y }"},
         {"a bias of an input",
          "graph { input x: f32[2,1,3,3]; const k: f32[1,1,3,3] = seeded(1.0, 1); input b: f32[1]; y = "
          "conv_transpose(x, k, b) {strides=[2, 2]}; output y }",
          "graph { input x: f32[2,1,3,3]; const k: f32[1,1,3,3] = seeded(1.0, 1); input b: f32[1]; const s: i64[3] = "
          "[1, 1, 1]; a = conv_transpose(x, k) {strides=[2, 2]}; c = reshape(b, s); y = add(a, c); output y }"}},
}};

}  // namespace peri::passes
