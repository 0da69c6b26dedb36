// Pass slice_volumes: a convolution over three axes becomes one over two whose channels are the depths under the
// kernel, so that kernels for images apply to volumes.
#include <algorithm>

#include "ops/shape/window.hpp"
#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

constexpr size_t kVolume = 5;  // rank of [batch, channels, depth, height, width]
constexpr int64_t kThin = 2;   // channels of a group with which a volume is faster as it is

// Weights [first, second, depth, height, width] as [first, second * depth, height, width].
Result<ir::Value*> flat_weights(Rewriter& w, const ir::Value* weights) {
  const auto held = std::make_shared<const Tensor>(*weights->constant);
  const std::vector<int64_t>& d = held->dims();
  PERI_ASSIGN(Tensor t, Tensor::view(held->dtype(), {d[0], d[1] * d[2], d[3], d[4]}, held->bytes(), held));
  return w.graph().add_constant(weights->name, std::move(t));
}

// Kernel, strides, dilations and pads by axis, where they are known; SAME needs extents that are numbers.
std::optional<ops::Window> window_of(const ir::Node& n) {
  const std::vector<int64_t>& d = n.in(1)->constant->dims();
  const auto spec = ops::window_spec(n, {d.begin() + 2, d.end()});
  if (!spec.ok()) return std::nullopt;
  if (spec->auto_pad == ops::AutoPad::kNotSet || spec->auto_pad == ops::AutoPad::kValid) return spec->window;
  std::vector<int64_t> in, out;
  for (size_t k = 2; k < kVolume; ++k) {
    const Dim &x = (*n.in(0)->type.shape)[k], &y = (*n.out()->type.shape)[k];
    if (!x.is_const() || !y.is_const()) return std::nullopt;
    in.push_back(x.value());
    out.push_back(y.value());
  }
  return spec->resolve(in, out);
}

ir::Attrs flat_attrs(const ir::Node& n, const ops::Window& v) {
  ir::Attrs attrs = n.attrs;
  attrs.erase("auto_pad");
  attrs["kernel_shape"] = std::vector<int64_t>{v.kernel[1], v.kernel[2]};
  attrs["strides"] = std::vector<int64_t>{v.stride[1], v.stride[2]};
  attrs["dilations"] = std::vector<int64_t>{v.dilation[1], v.dilation[2]};
  attrs["pads"] = std::vector<int64_t>{v.pad_begin[1], v.pad_begin[2], v.pad_end[1], v.pad_end[2]};
  return attrs;
}

// [batch, channels, depth, ...] with zeros at both ends of the depth.
Result<ir::Value*> padded(Rewriter& w, ir::Value* x, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return x;
  return w.make("pad", {x, w.ints({0, 0, before, 0, 0, 0, 0, after, 0, 0}, x->name)}, {}, x);
}

// The depths under tap `tap` of each of `count` windows.
Result<ir::Value*> depths(Rewriter& w, ir::Value* x, const ops::Window& v, int64_t tap, const Dim& count) {
  const Dim end = Dim(tap * v.dilation[0] + 1) + (count - Dim(1)) * Dim(v.stride[0]);
  ir::Value* ends = nullptr;
  if (end.is_const()) {
    ends = w.ints({end.value()}, x->name);
  } else {
    PERI_ASSIGN(ends, w.make("dims_constant", {}, {{"value", std::vector<Dim>{end}}}, nullptr));
  }
  return w.make("slice",
                {x, w.ints({tap * v.dilation[0]}, x->name), ends, w.ints({2}, x->name), w.ints({v.stride[0]}, x->name)},
                {}, x);
}

Result<bool> slice_conv(Rewriter& w, ir::Node* n) {
  const auto window = window_of(*n);
  if (!window) return false;
  const Shape in = *n->in(0)->type.shape, out = *n->out()->type.shape;
  w.standing_for({n});
  PERI_ASSIGN(ir::Value * x, padded(w, n->in(0), window->pad_begin[0], window->pad_end[0]));
  std::vector<ir::Value*> taps;
  for (int64_t k = 0; k < window->kernel[0]; ++k) {
    PERI_ASSIGN(ir::Value * part, depths(w, x, *window, k, out[2]));
    PERI_ASSIGN(part, w.reshape(part, {in[0], in[1], Dim(1), out[2], in[3], in[4]}, x));
    taps.push_back(part);
  }
  ir::Value* all = taps[0];
  if (taps.size() > 1) {
    PERI_ASSIGN(all, w.make("concat", taps, {{"axis", int64_t{2}}}, x));
  }
  PERI_ASSIGN(all, w.transpose(all, {0, 3, 1, 2, 4, 5}, x));
  PERI_ASSIGN(all, w.reshape(all, {in[0] * out[2], in[1] * Dim(window->kernel[0]), in[3], in[4]}, x));
  PERI_ASSIGN(ir::Value * weights, flat_weights(w, n->in(1)));
  std::vector<ir::Value*> inputs = {all, weights};
  if (n->in(2)) inputs.push_back(n->in(2));
  PERI_ASSIGN(ir::Value * y, w.make("conv", inputs, flat_attrs(*n, *window), n->out()));
  PERI_ASSIGN(y, w.reshape(y, {out[0], out[2], out[1], out[3], out[4]}, n->out()));
  PERI_ASSIGN(y, w.transpose(y, {0, 2, 1, 3, 4}, n->out()));
  w.replace(n->out(), y);
  return true;
}

// Where each depth makes depths of its own.
Result<bool> slice_transposed(Rewriter& w, ir::Node* n) {
  const auto window = window_of(*n);
  const std::vector<int64_t> more = n->ints("output_padding", {0, 0, 0});
  if (!window || n->has("output_shape") || n->s("auto_pad", "NOTSET") != "NOTSET") return false;
  if (window->kernel[0] != window->stride[0] || window->pad_begin[0] != 0 || window->pad_end[0] != 0 || more[0] != 0)
    return false;
  const Shape in = *n->in(0)->type.shape, out = *n->out()->type.shape;
  const Dim each(window->kernel[0]);
  w.standing_for({n});
  PERI_ASSIGN(ir::Value * x, w.transpose(n->in(0), {0, 2, 1, 3, 4}, n->in(0)));
  PERI_ASSIGN(x, w.reshape(x, {in[0] * in[2], in[1], in[3], in[4]}, n->in(0)));
  PERI_ASSIGN(ir::Value * weights, flat_weights(w, n->in(1)));
  ir::Attrs attrs = flat_attrs(*n, *window);
  attrs["output_padding"] = std::vector<int64_t>{more[1], more[2]};
  PERI_ASSIGN(ir::Value * y, w.make("conv_transpose", {x, weights}, std::move(attrs), n->out()));
  PERI_ASSIGN(y, w.reshape(y, {out[0], in[2], out[1], each, out[3], out[4]}, n->out()));
  PERI_ASSIGN(y, w.transpose(y, {0, 2, 1, 3, 4, 5}, n->out()));
  PERI_ASSIGN(y, w.reshape(y, out, n->out()));
  if (n->in(2)) {
    PERI_ASSIGN(ir::Value * bias, w.reshape(n->in(2), {out[1], Dim(1), Dim(1), Dim(1)}, n->in(2)));
    PERI_ASSIGN(y, w.make("add", {y, bias}, {}, n->out()));
  }
  w.replace(n->out(), y);
  return true;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "conv" && n->op != "conv_transpose") return false;
  const ir::Value *x = n->in(0), *weights = n->in(1);
  if (!x->type.known() || x->type.rank() != kVolume || !weights->constant ||
      weights->constant->dims().size() != kVolume)
    return false;
  if (n->op == "conv" && n->i("group", 1) > 1 && weights->constant->dims()[1] <= kThin) return false;
  if (!n->out()->type.known() || !w.sized_by_inputs(*x->type.shape) || !w.sized_by_inputs(*n->out()->type.shape))
    return false;
  for (const Dim& d : *n->out()->type.shape)
    if (d.is_const(0)) return false;
  return n->op == "conv" ? slice_conv(w, n) : slice_transposed(w, n);
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "slice_volumes", rule); }

}  // namespace

extern const Entry slice_volumes_entry;
const Entry slice_volumes_entry{{
    .name = "slice_volumes",
    .contract =
        "No convolution over three axes with constant weights and known pads is left, and no transposed one that makes "
        "depths of each depth alone: it works on images, one for each depth of the result, whose channels are those of "
        "every depth under its kernel. One whose groups have a channel or two stays: a kernel takes it plane by plane, "
        "without copies. The pass stands behind fold_batch_norm and fold_padding, which know any number of "
        "axes.",
    .follows = {"fold_constants", "fold_batch_norm", "fold_padding"},
    .run = run,
    .examples =
        {{"a kernel of two depths",
          "graph { input x: f32[2,3,4,5,6]; const w: f32[4,3,2,3,3] = seeded(0.2, 1); const b: f32[4] = seeded(0.5, "
          "2); y "
          "= conv(x, w, b) {pads=[0, 1, 1, 0, 1, 1]}; output y }",
          "graph { input x: f32[2,3,4,5,6]; const w: f32[4,6,3,3] = seeded(0.2, 1); const b: f32[4] = seeded(0.5, 2); "
          "const s0: i64[1] = [0]; const s1: i64[1] = [1]; const a0: i64[1] = [2]; const a1: i64[1] = [2]; const o0: "
          "i64[1] "
          "= [1]; const o1: i64[1] = [1]; const e0: i64[1] = [3]; const e1: i64[1] = [4]; const q0: i64[6] = [2, 3, 1, "
          "3, "
          "5, 6]; const q1: i64[6] = [2, 3, 1, 3, 5, 6]; const r: i64[4] = [6, 6, 5, 6]; const t: i64[5] = [2, 3, 4, "
          "5, 6]; "
          "p0 = slice(x, s0, e0, a0, o0); u0 = reshape(p0, q0); p1 = slice(x, s1, e1, a1, o1); u1 = reshape(p1, q1); c "
          "= "
          "concat(u0, u1) {axis=2}; m = transpose(c) {perm=[0, 3, 1, 2, 4, 5]}; n = reshape(m, r); k = conv(n, w, b) "
          "{dilations=[1, 1], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]}; v = reshape(k, t); y = "
          "transpose(v) "
          "{perm=[0, 2, 1, 3, 4]}; output y }"},
         {"a channel by itself stays",
          "graph { input x: f32[2,4,4,5,6]; const w: f32[4,1,2,3,3] = seeded(0.2, 1); y = conv(x, w) {group=4}; output "
          "y }",
          "graph { input x: f32[2,4,4,5,6]; const w: f32[4,1,2,3,3] = seeded(0.2, 1); y = conv(x, w) {group=4}; output "
          "y }"},
         {"an image stays one",
          "graph { input x: f32[2,4,5,6]; const w: f32[4,4,1,3] = seeded(0.2, 1); y = conv(x, w); output y }",
          "graph { input x: f32[2,4,5,6]; const w: f32[4,4,1,3] = seeded(0.2, 1); y = conv(x, w); output y }"}},
}};

}  // namespace peri::passes
