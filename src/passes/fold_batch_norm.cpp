// Pass fold_batch_norm: per-channel scales and shifts after a convolution are folded into its weights and bias.
#include <cmath>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// y = scale[c] * x + shift[c] over axis 1, in double.
struct Channels {
  ir::Value* x = nullptr;
  std::vector<double> scale, shift;
};

std::vector<double> doubles(const Tensor& t) {
  std::vector<double> out;
  for (int64_t k = 0; k < t.numel(); ++k) out.push_back(t.f64(k));
  return out;
}

// A constant of `channels` values over axis 1 of a tensor of `rank`, or one value for all.
std::optional<std::vector<double>> over_channels(const ir::Value* v, size_t rank, int64_t channels) {
  if (!v->constant || v->type.rank() > rank || !is_float(v->type.dtype)) return std::nullopt;
  const std::vector<int64_t>& dims = v->constant->dims();
  for (size_t k = 0; k < dims.size(); ++k)
    if (dims[k] != 1 && rank - dims.size() + k != 1) return std::nullopt;
  std::vector<double> out = doubles(*v->constant);
  if (out.size() == 1) out.resize(static_cast<size_t>(channels), out[0]);
  return static_cast<int64_t>(out.size()) == channels ? std::optional(out) : std::nullopt;
}

std::optional<Channels> read_norm(const ir::Node& n) {
  for (size_t k = 1; k < 5; ++k)
    if (!n.in(k) || !n.in(k)->constant || n.in(k)->constant->numel() != n.in(1)->constant->numel()) return std::nullopt;
  if (n.i("training_mode") != 0 || n.in(1)->constant->numel() == 0) return std::nullopt;
  const std::vector<double> scale = doubles(*n.in(1)->constant), bias = doubles(*n.in(2)->constant),
                            mean = doubles(*n.in(3)->constant), var = doubles(*n.in(4)->constant);
  Channels c{n.in(0), {}, {}};
  for (size_t k = 0; k < scale.size(); ++k) {
    c.scale.push_back(scale[k] / std::sqrt(var[k] + n.f("epsilon", 1e-5)));
    c.shift.push_back(bias[k] - mean[k] * c.scale[k]);
  }
  return c;
}

std::optional<Channels> read_channels(const ir::Node& n) {
  if (n.outputs.empty() || !n.out()->type.known() || n.out()->type.rank() < 2 || !is_float(n.out()->type.dtype))
    return std::nullopt;
  const Dim& d = (*n.out()->type.shape)[1];
  if (!d.is_const() || d.value() == 0) return std::nullopt;
  if (n.op == "batch_normalization") return read_norm(n);
  if (n.out()->type.rank() < 3) return std::nullopt;
  const bool both = n.op == "add" || n.op == "mul";
  if ((!both && n.op != "sub" && n.op != "div") || n.inputs.size() != 2) return std::nullopt;
  for (size_t k : {1, 0}) {
    if (k == 0 && !both) break;
    auto c = over_channels(n.in(k), n.out()->type.rank(), d.value());
    if (!c || !same_shape(n.in(1 - k), n.out())) continue;
    Channels out{n.in(1 - k), std::vector<double>(c->size(), 1), std::vector<double>(c->size(), 0)};
    for (size_t j = 0; j < c->size(); ++j) {
      if (n.op == "add") out.shift[j] = (*c)[j];
      if (n.op == "sub") out.shift[j] = -(*c)[j];
      if (n.op == "mul") out.scale[j] = (*c)[j];
      if (n.op == "div") out.scale[j] = 1 / (*c)[j];
    }
    return out;
  }
  return std::nullopt;
}

// Weights times the scale of their output channel: axis 0 of conv, axis 1 of conv_transpose without groups.
std::optional<Tensor> scaled(const Tensor& w, const std::vector<double>& scale, size_t axis) {
  auto out = Tensor::zeros(w.dtype(), w.dims());
  if (!out.ok() || static_cast<size_t>(w.dims()[axis]) != scale.size()) return std::nullopt;
  int64_t inner = 1;
  for (size_t k = axis + 1; k < w.dims().size(); ++k) inner *= w.dims()[k];
  for (int64_t k = 0; k < w.numel(); ++k)
    out->set_f64(k, w.f64(k) * scale[static_cast<size_t>(k / inner) % scale.size()]);
  return *std::move(out);
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  const auto c = read_channels(*n);
  if (!c) return false;
  ir::Node* conv = c->x->producer;
  if (!conv || (conv->op != "conv" && conv->op != "conv_transpose") || !w.used_once(c->x)) return false;
  const bool turned = conv->op == "conv_transpose";
  if ((turned && conv->i("group", 1) != 1) || !conv->in(1)->constant || (conv->in(2) && !conv->in(2)->constant))
    return false;
  for (double s : c->scale)
    if (!std::isfinite(s)) return false;
  auto weights = scaled(*conv->in(1)->constant, c->scale, turned ? 1 : 0);
  auto bias = Tensor::zeros(conv->in(1)->type.dtype, {static_cast<int64_t>(c->scale.size())});
  if (!weights || !bias.ok()) return false;
  for (size_t k = 0; k < c->scale.size(); ++k) {
    const double before = conv->in(2) ? conv->in(2)->constant->f64(static_cast<int64_t>(k)) : 0;
    bias->set_f64(static_cast<int64_t>(k), before * c->scale[k] + c->shift[k]);
  }
  w.standing_for({conv, n});
  std::vector<ir::Value*> inputs = {conv->in(0), w.graph().add_constant(conv->in(1)->name, *std::move(weights)),
                                    w.graph().add_constant("bias", std::move(bias).value())};
  PERI_ASSIGN(ir::Value * y, w.make(conv->op, std::move(inputs), conv->attrs, n->out()));
  w.replace(n->out(), y);
  return true;
}

// Of statistics or a number of channels that are known in the run only, where another number is an error and no
// broadcast: (x - mean) * (scale / sqrt(variance + epsilon)) + bias.
Result<bool> open(Rewriter& w, ir::Node* n) {
  if (n->i("training_mode") != 0 || !n->out()->type.known() || n->out()->type.rank() < 2) return false;
  const DType t = n->out()->type.dtype;
  Shape channels(n->out()->type.rank() - 1, Dim(1));
  channels[0] = (*n->out()->type.shape)[1];
  std::vector<ir::Value*> of(5);
  for (size_t k = 1; k < 5; ++k) {
    ir::Value* const v = n->in(k);
    if (!v || v->type.dtype != t || !v->type.known() || v->type.rank() != 1) return false;
  }
  if (!w.sized_by_inputs(channels)) return false;
  w.standing_for({n});
  const std::vector<Dim> to(channels.begin(), channels.end());
  PERI_ASSIGN(ir::Value * shape, w.make("dims_constant", {}, {{"value", to}}, n->in(1)));
  for (size_t k = 1; k < 5; ++k) {
    PERI_ASSIGN(of[k], w.make("reshape", {n->in(k), shape}, {}, n->in(k)));
  }
  const ir::Value* const like = n->out();
  PERI_ASSIGN(ir::Value * factor, w.make("add", {of[4], w.scalar(t, n->f("epsilon", 1e-5), "epsilon")}, {}, like));
  PERI_ASSIGN(factor, w.make("sqrt", {factor}, {}, like));
  PERI_ASSIGN(factor, w.make("div", {of[1], factor}, {}, like));
  PERI_ASSIGN(ir::Value * y, w.make("sub", {n->in(0), of[3]}, {}, like));
  PERI_ASSIGN(y, w.make("mul", {y, factor}, {}, like));
  PERI_ASSIGN(y, w.make("add", {y, of[2]}, {}, like));
  w.replace(n->out(), y);
  return true;
}

// A batch normalisation that nothing takes up is a product and a sum.
Result<bool> plain(Rewriter& w, ir::Node* n) {
  if (n->op != "batch_normalization") return false;
  const auto c = read_channels(*n);
  if (!c) return open(w, n);
  std::vector<int64_t> dims(n->out()->type.rank() - 1, 1);
  dims[0] = static_cast<int64_t>(c->scale.size());
  auto scale = Tensor::zeros(n->out()->type.dtype, dims), shift = Tensor::zeros(n->out()->type.dtype, dims);
  if (!scale.ok() || !shift.ok()) return false;
  for (size_t k = 0; k < c->scale.size(); ++k) {
    scale->set_f64(static_cast<int64_t>(k), c->scale[k]);
    shift->set_f64(static_cast<int64_t>(k), c->shift[k]);
  }
  PERI_ASSIGN(ir::Value * y,
              w.make("mul", {c->x, w.graph().add_constant("scale", std::move(scale).value())}, {}, n->out()));
  PERI_ASSIGN(y, w.make("add", {y, w.graph().add_constant("shift", std::move(shift).value())}, {}, n->out()));
  w.replace(n->out(), y);
  return true;
}

Result<int64_t> run(ir::Graph& graph) {
  PERI_ASSIGN(const int64_t folded, rewrite_all(graph, "fold_batch_norm", rule, 8));
  PERI_ASSIGN(const int64_t left, rewrite_all(graph, "fold_batch_norm", plain));
  return folded + left;
}

}  // namespace

extern const Entry fold_batch_norm_entry;
const Entry fold_batch_norm_entry{{
    .name = "fold_batch_norm",
    .contract = "A batch normalisation, or a constant factor or summand for each channel, right behind a convolution "
                "with constant weights "
                "is part of its weights and bias (computed in double); any other batch normalisation of constants is a "
                "product and a sum for each channel, and one of computed statistics their arithmetic.",
    .follows = {"fold_constants"},
    .run = run,
    .examples =
        {{"behind a convolution",
          "graph { input x: f32[batch,1,4,4]; const w: f32[2,1,1,2] = [1.0, 2.0, 3.0, 4.0]; const s: f32[2] = [2.0, "
          "4.0]; const b: "
          "f32[2] = [1.0, 2.0]; const m: f32[2] = [1.0, 3.0]; const v: f32[2] = [4.0, 16.0]; a = conv(x, w); y = "
          "batch_normalization(a, s, b, m, v) {epsilon=0.0}; output y }",
          "graph { input x: f32[batch,1,4,4]; const w: f32[2,1,1,2] = [1.0, 2.0, 3.0, 4.0]; const b: f32[2] = [0.0, "
          "-1.0]; y = conv(x, "
          "w, b); output y }"},
         {"a bias written apart",
          "graph { input x: f32[2,1,4,4]; const w: f32[2,1,1,1] = [1.0, 2.0]; const c: f32[2] = [1.0, 1.0]; const b: "
          "f32[1,2,1,1] = [3.0, "
          "4.0]; const f: f32[] = [2.0]; a = conv(x, w, c); d = add(b, a); y = mul(d, f); output y }",
          "graph { input x: f32[2,1,4,4]; const w: f32[2,1,1,1] = [2.0, 4.0]; const b: f32[2] = [8.0, 10.0]; y = "
          "conv(x, w, b); output y "
          "}"},
         {"behind a transposed convolution",
          "graph { input x: f32[1,1,3,3]; const w: f32[1,2,1,1] = [1.0, 2.0]; const s: f32[2,1,1] = [2.0, 3.0]; a = "
          "conv_transpose(x, w); "
          "y = mul(a, s); output y }",
          "graph { input x: f32[1,1,3,3]; const w: f32[1,2,1,1] = [2.0, 6.0]; const b: f32[2] = [0.0, 0.0]; y = "
          "conv_transpose(x, w, b); "
          "output y }"},
         {"behind something else",
          "graph { input x: f32[2,2,3]; const s: f32[2] = [2.0, 4.0]; const b: f32[2] = [1.0, 2.0]; const m: f32[2] = "
          "[1.0, 3.0]; const v: "
          "f32[2] = [4.0, 16.0]; a = relu(x); y = batch_normalization(a, s, b, m, v) {epsilon=0.0}; output y }",
          "graph { input x: f32[2,2,3]; const s: f32[2,1] = [1.0, 1.0]; const t: f32[2,1] = [0.0, -1.0]; a = relu(x); "
          "b = mul(a, s); y = "
          "add(b, t); output y }"},
         {"of columns",
          "graph { input x: f32[n,2]; const s: f32[2] = [2.0, 4.0]; const b: f32[2] = [1.0, 2.0]; const m: f32[2] = "
          "[1.0, 3.0]; const v: f32[2] = [4.0, 16.0]; y = batch_normalization(x, s, b, m, v) {epsilon=0.0}; output y "
          "}",
          "graph { input x: f32[n,2]; const s: f32[2] = [1.0, 1.0]; const t: f32[2] = [0.0, -1.0]; a = mul(x, s); y = "
          "add(a, t); output y }"},
         {"of statistics that are inputs",
          "graph { input x: f32[n,c,4]; input s: f32[c]; input b: f32[c]; input m: f32[c]; input v: f32[c]; y = "
          "batch_normalization(x, s, b, m, v) {epsilon=0.5}; output y }",
          "graph { input x: f32[n,c,4]; input s: f32[c]; input b: f32[c]; input m: f32[c]; input v: f32[c]; const e: "
          "f32[] = [0.5]; p = dims_constant() {value=dims[c,1]}; s1 = reshape(s, p); b1 = reshape(b, p); m1 = "
          "reshape(m, "
          "p); v1 = reshape(v, p); f = "
          "add(v1, e); g = sqrt(f); h = div(s1, g); d = sub(x, m1); k = mul(d, h); y = add(k, b1); output y }"}},
}};

}  // namespace peri::passes
