// Pass slice_volumes: a convolution over three axes becomes one over two whose channels are the depths under the
// kernel, so that kernels for images apply to volumes.
#include <algorithm>
#include <cstring>

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
  if (n.has("output_padding")) {
    const std::vector<int64_t> more = n.ints("output_padding");
    attrs["output_padding"] = std::vector<int64_t>{more[1], more[2]};
  }
  return attrs;
}

// [batch, channels, depth, ...] with zeros at both ends of the depth.
Result<ir::Value*> padded(Rewriter& w, ir::Value* x, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return x;
  return w.make("pad", {x, w.ints({0, 0, before, 0, 0, 0, 0, after, 0, 0}, x->name)}, {}, x);
}

// `count` depths from `first` on, a stride apart.
Result<ir::Value*> slice_depths(Rewriter& w, ir::Value* x, int64_t first, int64_t stride, const Dim& count) {
  const Dim end = Dim(first + 1) + (count - Dim(1)) * Dim(stride);
  ir::Value* ends = nullptr;
  if (end.is_const()) {
    ends = w.ints({end.value()}, x->name);
  } else {
    PERI_ASSIGN(ends, w.make("dims_constant", {}, {{"value", std::vector<Dim>{end}}}, nullptr));
  }
  return w.make("slice", {x, w.ints({first}, x->name), ends, w.ints({2}, x->name), w.ints({stride}, x->name)}, {}, x);
}

// Parts [batch, channels, 1, depth, height, width] as images [batch, depth, channels, parts, height, width].
Result<ir::Value*> images_of(Rewriter& w, const std::vector<ir::Value*>& parts, const ir::Value* like) {
  ir::Value* all = parts[0];
  if (parts.size() > 1) {
    PERI_ASSIGN(all, w.make("concat", parts, {{"axis", int64_t{2}}}, like));
  }
  return w.transpose(all, {0, 3, 1, 2, 4, 5}, like);
}

Result<bool> slice_conv(Rewriter& w, ir::Node* n) {
  const auto window = window_of(*n);
  if (!window) return false;
  const Shape in = *n->in(0)->type.shape, out = *n->out()->type.shape;
  w.standing_for({n});
  PERI_ASSIGN(ir::Value * x, padded(w, n->in(0), window->pad_begin[0], window->pad_end[0]));
  std::vector<ir::Value*> taps;
  for (int64_t k = 0; k < window->kernel[0]; ++k) {
    PERI_ASSIGN(ir::Value * part, slice_depths(w, x, k * window->dilation[0], window->stride[0], out[2]));
    PERI_ASSIGN(part, w.reshape(part, {in[0], in[1], Dim(1), out[2], in[3], in[4]}, x));
    taps.push_back(part);
  }
  PERI_ASSIGN(ir::Value * all, images_of(w, taps, x));
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

// A transposed convolution where each depth makes depths of its own.
Result<ir::Value*> slice_apart(Rewriter& w, ir::Node* n, const ops::Window& window) {
  const Shape in = *n->in(0)->type.shape, out = *n->out()->type.shape;
  PERI_ASSIGN(ir::Value * x, w.transpose(n->in(0), {0, 2, 1, 3, 4}, n->in(0)));
  PERI_ASSIGN(x, w.reshape(x, {in[0] * in[2], in[1], in[3], in[4]}, n->in(0)));
  PERI_ASSIGN(ir::Value * weights, flat_weights(w, n->in(1)));
  PERI_ASSIGN(ir::Value * y, w.make("conv_transpose", {x, weights}, flat_attrs(*n, window), n->out()));
  PERI_ASSIGN(y, w.reshape(y, {out[0], in[2], out[1], Dim(window.kernel[0]), out[3], out[4]}, n->out()));
  PERI_ASSIGN(y, w.transpose(y, {0, 2, 1, 3, 4, 5}, n->out()));
  PERI_ASSIGN(y, w.reshape(y, out, n->out()));
  if (n->in(2)) {
    PERI_ASSIGN(ir::Value * bias, w.reshape(n->in(2), {out[1], Dim(1), Dim(1), Dim(1)}, n->in(2)));
    PERI_ASSIGN(y, w.make("add", {y, bias}, {}, n->out()));
  }
  return y;
}

// Of a transposed convolution the depths of the result that are a stride apart: number k takes the depth `at` + k of x
// through each of the taps.
struct Phase {
  std::vector<int64_t> taps, at;
};
std::vector<Phase> phases_of(const ops::Window& v) {
  std::vector<Phase> phases(static_cast<size_t>(v.stride[0]));
  for (int64_t tap = 0; tap < v.kernel[0]; ++tap)
    for (int64_t first = 0; first < v.stride[0]; ++first) {
      const int64_t from = first + v.pad_begin[0] - tap * v.dilation[0];
      if (from % v.stride[0] != 0) continue;
      phases[static_cast<size_t>(first)].taps.push_back(tap);
      phases[static_cast<size_t>(first)].at.push_back(from / v.stride[0]);
    }
  return phases;
}

// Weights [first, second, depth, height, width] of some depths as [first * depths, second, height, width].
Result<ir::Value*> weights_of(Rewriter& w, const ir::Value* weights, const std::vector<int64_t>& taps) {
  const std::vector<int64_t>& d = weights->constant->dims();
  const int64_t count = std::ssize(taps);
  PERI_ASSIGN(Tensor t, Tensor::zeros(weights->type.dtype, {d[0] * count, d[1], d[3], d[4]}));
  const size_t plane = static_cast<size_t>(d[3] * d[4] * dtype_bits(t.dtype()) / 8);
  const auto at = [&](int64_t k) { return static_cast<size_t>(k) * plane; };
  for (int64_t c = 0; c < d[0]; ++c)
    for (int64_t k = 0; k < count; ++k)
      for (int64_t m = 0; m < d[1]; ++m)
        std::memcpy(t.mutable_data() + at((c * count + k) * d[1] + m),
                    weights->constant->bytes().data() + at((c * d[1] + m) * d[2] + taps[static_cast<size_t>(k)]),
                    plane);
  return w.graph().add_constant(weights->name, std::move(t));
}

// The depths of one phase, `count` of them, as images of the size that `out` says. x has `before` zeros at its
// beginning, and enough at its end.
Result<ir::Value*> make_phase(Rewriter& w, ir::Node* n, ir::Value* x, const ops::Window& v, const Phase& phase,
                              int64_t before, const Dim& count) {
  const Shape in = *n->in(0)->type.shape, out = *n->out()->type.shape, image = {in[0] * count, out[1], out[3], out[4]};
  if (phase.taps.empty()) {  // a stride longer than the kernel leaves depths that nothing reaches
    PERI_ASSIGN(ir::Value * size, w.make("dims_constant", {}, {{"value", std::vector<Dim>(image)}}, nullptr));
    ir::Value* nothing = w.scalar(n->out()->type.dtype, 0, n->out()->name);
    if (n->in(2)) {
      PERI_ASSIGN(nothing, w.reshape(n->in(2), {Dim(1), out[1], Dim(1), Dim(1)}, n->in(2)));
    }
    return w.make("expand", {nothing, size}, {}, n->out());
  }
  std::vector<ir::Value*> parts;
  for (const int64_t at : phase.at) {
    PERI_ASSIGN(ir::Value * part, slice_depths(w, x, at + before, 1, count));
    PERI_ASSIGN(part, w.reshape(part, {in[0], in[1], Dim(1), count, in[3], in[4]}, x));
    parts.push_back(part);
  }
  PERI_ASSIGN(ir::Value * all, images_of(w, parts, x));
  PERI_ASSIGN(all, w.reshape(all, {in[0] * count, in[1] * Dim(std::ssize(parts)), in[3], in[4]}, x));
  PERI_ASSIGN(ir::Value * weights, weights_of(w, n->in(1), phase.taps));
  std::vector<ir::Value*> inputs = {all, weights};
  if (n->in(2)) inputs.push_back(n->in(2));
  return w.make("conv_transpose", inputs, flat_attrs(*n, v), n->out());
}

// Every depth of the result by what reaches it: as many convolutions as depths in a stride, whose results are in turn.
Result<ir::Value*> slice_in_turn(Rewriter& w, ir::Node* n, const ops::Window& v) {
  const Shape in = *n->in(0)->type.shape, out = *n->out()->type.shape;
  const int64_t stride = v.stride[0];
  const Dim count = floordiv(out[2] + Dim(stride - 1), Dim(stride));
  const std::vector<Phase> phases = phases_of(v);
  int64_t before = 0, last = 0;
  for (const Phase& p : phases)
    for (const int64_t at : p.at) {
      before = std::max(before, -at);
      last = std::max(last, at);
    }
  // How many depths of x the phases reach beyond its end, the same at any size of it.
  const Dim beyond = count - in[2];
  if (!beyond.is_const()) return nullptr;
  PERI_ASSIGN(ir::Value * x, padded(w, n->in(0), before, std::max<int64_t>(0, beyond.value() + last)));
  std::vector<ir::Value*> made;
  for (const Phase& p : phases) {
    PERI_ASSIGN(ir::Value * y, make_phase(w, n, x, v, p, before, count));
    PERI_ASSIGN(y, w.reshape(y, {out[0], count, Dim(1), out[1], out[3], out[4]}, n->out()));
    made.push_back(y);
  }
  ir::Value* y = made[0];
  if (made.size() > 1) {
    PERI_ASSIGN(y, w.make("concat", made, {{"axis", int64_t{2}}}, n->out()));
  }
  PERI_ASSIGN(y, w.reshape(y, {out[0], count * Dim(stride), out[1], out[3], out[4]}, n->out()));
  PERI_ASSIGN(y, w.transpose(y, {0, 2, 1, 3, 4}, n->out()));
  return count * Dim(stride) == out[2] ? y : slice_depths(w, y, 0, 1, out[2]);
}

Result<bool> slice_transposed(Rewriter& w, ir::Node* n) {
  const auto window = window_of(*n);
  if (!window || n->has("output_shape") || n->s("auto_pad", "NOTSET") != "NOTSET") return false;
  w.standing_for({n});
  const bool apart = window->kernel[0] == window->stride[0] && window->dilation[0] == 1 && window->pad_begin[0] == 0 &&
                     window->pad_end[0] == 0 && n->ints("output_padding", {0, 0, 0})[0] == 0;
  PERI_ASSIGN(ir::Value * y, apart ? slice_apart(w, n, *window) : slice_in_turn(w, n, *window));
  if (!y) return false;
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
        "No convolution over three axes with constant weights and known pads is left, and no transposed one: it works "
        "on images, one for each depth of the result, whose channels are those of every depth that reaches it; a "
        "transposed one that makes depths of each depth alone on one for each of its own. A convolution whose groups "
        "have a channel or two stays: a kernel takes it plane by plane, without copies. The pass stands behind "
        "fold_batch_norm and fold_padding, which know any number of "
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
         {"a transposed one: depths that one depth reaches, and depths that two reach, in turn",
          "graph { input x: f32[1,1,2,2,2]; const w: f32[1,1,3,1,1] = [1, 2, 3]; y = conv_transpose(x, w) {pads=[1, 0, "
          "0, 1, 0, 0], strides=[2, 1, 1]}; output y }",
          "graph { input x: f32[1,1,2,2,2]; const k0: i64[10] = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0]; const k1: i64[1] = "
          "[2]; const k2: i64[1] = [0]; const k3: i64[1] = [2]; const k4: i64[1] = [1]; const k5: i64[6] = [1, 1, "
          "1, 2, 2, 2]; const k6: i64[4] = [2, 1, 2, 2]; const k7: f32[1,1,1,1] = [2]; const k8: i64[6] = [1, 2, 1, "
          "1, 2, 2]; const k9: i64[1] = [3]; const k10: i64[1] = [1]; const k11: i64[1] = [2]; const k12: i64[1] = "
          "[1]; const k13: i64[6] = [1, 1, 1, 2, 2, 2]; const k14: i64[1] = [2]; const k15: i64[1] = [0]; const "
          "k16: i64[1] = [2]; const k17: i64[1] = [1]; const k18: i64[6] = [1, 1, 1, 2, 2, 2]; const k19: i64[4] = "
          "[2, 2, 2, 2]; const k20: f32[2,1,1,1] = [1, 3]; const k21: i64[6] = [1, 2, 1, 1, 2, 2]; const k22: "
          "i64[5] = [1, 4, 1, 2, 2]; const k23: i64[1] = [3]; const k24: i64[1] = [0]; const k25: i64[1] = [2]; "
          "const k26: i64[1] = [1]; v0 = pad(x, k0); v1 = slice(v0, k2, k1, k3, k4); v2 = reshape(v1, k5); v3 = "
          "transpose(v2) {perm=[0, 3, 1, 2, 4, 5]}; v4 = reshape(v3, k6); v5 = conv_transpose(v4, k7) "
          "{dilations=[1, 1], kernel_shape=[1, 1], pads=[0, 0, 0, 0], strides=[1, 1]}; v6 = reshape(v5, k8); v7 = "
          "slice(v0, k10, k9, k11, k12); v8 = reshape(v7, k13); v9 = slice(v0, k15, k14, k16, k17); v10 = "
          "reshape(v9, k18); v11 = concat(v8, v10) {axis=2}; v12 = transpose(v11) {perm=[0, 3, 1, 2, 4, 5]}; v13 = "
          "reshape(v12, k19); v14 = conv_transpose(v13, k20) {dilations=[1, 1], kernel_shape=[1, 1], pads=[0, 0, 0, "
          "0], strides=[1, 1]}; v15 = reshape(v14, k21); v16 = concat(v6, v15) {axis=2}; v17 = reshape(v16, k22); "
          "v18 = transpose(v17) {perm=[0, 2, 1, 3, 4]}; y = slice(v18, k24, k23, k25, k26); output y }"},
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
