// Pass open_upsampling: a transposed convolution into a few channels whose windows do not overlap becomes a convolution
// of one element and a move of its channels to where the windows were.
#include <algorithm>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// Kernels compute vectors of channels, of which fewer than these fill less than half of one. Measured:
// benchmarks/results/2026-11-29_upsampling.md.
constexpr int64_t kMaxChannels = 4;

bool all(const std::vector<int64_t>& list, int64_t wanted) {
  return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == wanted; });
}

// [in, out, kh, kw] -> [out * kh * kw, in, 1, 1].
Result<Tensor> turned(const Tensor& w) {
  const int64_t in = w.dims()[0], columns = w.numel() / in;
  PERI_ASSIGN(Tensor out, Tensor::zeros(w.dtype(), {columns, in, 1, 1}));
  const auto from = w.as<float>();
  auto* const to = reinterpret_cast<float*>(out.mutable_data());
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t k = 0; k < in; ++k) to[c * in + k] = from[static_cast<size_t>(k * columns + c)];
  return out;
}

Tensor repeated(const Tensor& bias, int64_t times) {
  std::vector<float> all;
  for (const float b : bias.as<float>()) all.insert(all.end(), static_cast<size_t>(times), b);
  return Tensor::of_f32({bias.numel() * times}, all);
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "conv_transpose" || !n->in(0)->type.known() || n->in(0)->type.rank() != 4) return false;
  const ir::Value *weights = n->in(1), *bias = n->in(2);
  if (!weights->constant || weights->constant->numel() == 0 || weights->type.dtype != DType::kF32) return false;
  if (bias && !bias->constant) return false;
  const std::vector<int64_t>& dims = weights->constant->dims();
  const std::vector<int64_t> window = {dims[2], dims[3]};
  if (n->i("group", 1) != 1 || dims[1] > kMaxChannels || n->has("output_shape")) return false;
  if (n->s("auto_pad", "NOTSET") != "NOTSET" || n->ints("strides", {1, 1}) != window || window[0] * window[1] < 2 ||
      !all(n->ints("dilations", {}), 1) || !all(n->ints("pads", {}), 0) || !all(n->ints("output_padding", {}), 0))
    return false;
  const Shape x = *n->in(0)->type.shape, y = *n->out()->type.shape;
  w.standing_for({n});
  PERI_ASSIGN(Tensor columns, turned(*weights->constant));
  std::vector<ir::Value*> inputs = {n->in(0), w.graph().add_constant(weights->name, std::move(columns))};
  if (bias) inputs.push_back(w.graph().add_constant(bias->name, repeated(*bias->constant, window[0] * window[1])));
  PERI_ASSIGN(ir::Value * v, w.make("conv", std::move(inputs), {}, n->out()));
  const Shape parts = {x[0], Dim(dims[1]), Dim(window[0]), Dim(window[1]), x[2], x[3]};
  PERI_ASSIGN(v, w.reshape(v, parts, n->out()));
  PERI_ASSIGN(v, w.transpose(v, {0, 1, 4, 2, 5, 3}, n->out()));
  PERI_ASSIGN(v, w.reshape(v, y, n->out()));
  w.replace(n->out(), v);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "open_upsampling", rule); }

}  // namespace

extern const Entry open_upsampling_entry;
const Entry open_upsampling_entry{{
    .name = "open_upsampling",
    .contract =
        "No transposed convolution of float32 with constant weights into at most four channels has strides as large as "
        "its window and nothing else (pads, dilations, groups): it is a convolution into the channels of all elements "
        "of a window, and a transpose. It stands behind fold_batch_norm and lift_windows.",
    .follows = {"fold_batch_norm", "lift_windows"},
    .run = run,
    .examples =
        {{"windows of two by two",
          "graph { input x: f32[n,1,3,w]; const k: f32[1,1,2,2] = [1.0, 2.0, 3.0, 4.0]; const b: f32[1] = [5.0]; y = "
          "conv_transpose(x, k, b) {strides=[2, 2]}; output y }",
          "graph { input x: f32[n,1,3,w]; const k: f32[4,1,1,1] = [1.0, 2.0, 3.0, 4.0]; const b: f32[4] = [5.0, 5.0, "
          "5.0, 5.0]; "
          "a = conv(x, k, b); s = dims_constant() {value=dims[n,1,2,2,3,w]}; c = reshape(a, s); d = transpose(c) "
          "{perm=[0, 1, 4, 2, 5, 3]}; "
          "m = dims_constant() {value=dims[n,1,6,2*w]}; y = reshape(d, m); output y }"},
         {"windows that overlap stay",
          "graph { input x: f32[2,1,3,3]; const k: f32[1,1,3,3] = seeded(1.0, 1); y = conv_transpose(x, k) "
          "{strides=[2, 2]}; output y }",
          "graph { input x: f32[2,1,3,3]; const k: f32[1,1,3,3] = seeded(1.0, 1); y = conv_transpose(x, k) "
          "{strides=[2, 2]}; output y }"}},
}};

}  // namespace peri::passes
