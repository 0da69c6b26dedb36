// Pass lift_windows: convolutions and pooling along one axis get a second axis of one element before it, so that
// kernels for images apply to signals.
#include <algorithm>
#include <unordered_map>

#include "passes/entry.hpp"
#include "passes/rewrite/views.hpp"

namespace peri::passes {
namespace {

constexpr size_t kSignal = 3;       // rank of [batch, channels, length]
constexpr int64_t kLiftedAxis = 2;  // the axis of one element in [batch, channels, 1, length]

bool takes_windows(const ir::Node& n) {
  if (n.op != "conv" && n.op != "conv_transpose" && n.op != "max_pool" && n.op != "average_pool") return false;
  return n.outputs.size() == 1 && n.in(0)->type.known() && n.in(0)->type.rank() == kSignal;
}

// [batch, channels, 1, length] -> [batch, channels, length], as a view.
bool drops_axis(const ir::Node& n) {
  if (!is_reshape_like(n) || !n.in(0)->type.known() || n.in(0)->type.rank() != kSignal + 1) return false;
  const Shape &from = *n.in(0)->type.shape, &to = *n.out()->type.shape;
  return to.size() == kSignal && from[kLiftedAxis].is_const(1) && from[0] == to[0] && from[1] == to[1] &&
         from[3] == to[2];
}

// Values as they look where the length is axis 3, made once for all that read them.
struct Lifting {
  std::unordered_map<const ir::Value*, ir::Value*> made = {};

  // `v` itself if it is broadcast along the length at most.
  Result<ir::Value*> lifted(Rewriter& w, ir::Value* v) {
    if (ir::Node* n = v->producer; n && drops_axis(*n)) return n->in(0);
    const size_t rank = v->type.rank();
    if (rank < 2) return v;
    ir::Value*& known = made[v];
    if (known && (!known->producer || known->producer->in(0) == v)) return known;  // else nothing read it any more
    if (v->constant) {
      const auto held = std::make_shared<const Tensor>(*v->constant);
      std::vector<int64_t> dims = held->dims();
      dims.insert(dims.end() - 1, 1);
      PERI_ASSIGN(Tensor t, Tensor::view(held->dtype(), std::move(dims), held->bytes(), held));
      return known = w.graph().add_constant(v->name, std::move(t));
    }
    PERI_ASSIGN(known, w.make("unsqueeze", {v, w.ints({static_cast<int64_t>(rank) - 1}, v->name)}, {}, v));
    return known;
  }
};

// `y` of the node's lifted form takes the place of the node's result.
Result<bool> lower_again(Rewriter& w, ir::Node* n, ir::Value* y) {
  PERI_ASSIGN(ir::Value * flat, w.make("squeeze", {y, w.ints({kLiftedAxis}, y->name)}, {}, n->out()));
  w.replace(n->out(), flat);
  return true;
}

// Lists of one number an axis, and of one at its beginning and one at its end.
ir::Attrs lifted_attrs(const ir::Node& n) {
  ir::Attrs attrs = n.attrs;
  for (const char* name : {"kernel_shape", "strides", "dilations", "output_shape"})  // which may begin with the batch
    if (n.has(name)) attrs[name] = std::vector<int64_t>{1, n.ints(name).back()};
  if (n.has("output_padding")) attrs["output_padding"] = std::vector<int64_t>{0, n.ints("output_padding")[0]};
  if (n.has("pads")) attrs["pads"] = std::vector<int64_t>{0, n.ints("pads")[0], 0, n.ints("pads")[1]};
  return attrs;
}

Result<bool> lift(Rewriter& w, ir::Node* n, Lifting& lifting) {
  std::vector<ir::Value*> inputs = n->inputs;
  w.standing_for({n});
  for (size_t port = 0; port < inputs.size() && port < 2; ++port) {
    PERI_ASSIGN(inputs[port], lifting.lifted(w, inputs[port]));
  }
  PERI_ASSIGN(ir::Value * y, w.make(n->op, std::move(inputs), lifted_attrs(*n), n->out()));
  return lower_again(w, n, y);
}

// Which nodes work on elements or channels alone, so that the axis may as well be dropped behind them.
bool passes_axis(const ir::Node& n) {
  if (n.outputs.size() != 1 || n.inputs.empty() || !n.out()->type.known() || n.out()->type.rank() != kSignal)
    return false;
  if (n.op == "batch_normalization") return n.in(0)->producer && drops_axis(*n.in(0)->producer);
  const ops::OpDef* op = ops::find(n.op);
  const bool joins = n.op == "concat" && wrap_axis(n.i("axis", 0), kSignal) < kLiftedAxis;
  if (!joins && (!op || !op->elementwise || op->view)) return false;
  const auto drops = [](const ir::Value* v) { return v && v->producer && drops_axis(*v->producer); };
  // A value that comes from another place is lifted by a view, which costs nothing; a join would copy it.
  if (joins) return std::all_of(n.inputs.begin(), n.inputs.end(), drops);
  return std::any_of(n.inputs.begin(), n.inputs.end(), drops) &&
         std::all_of(n.inputs.begin(), n.inputs.end(), [](const ir::Value* v) { return !v || v->type.known(); });
}

Result<bool> move_past(Rewriter& w, ir::Node* n, Lifting& lifting) {
  std::vector<ir::Value*> inputs = n->inputs;
  w.standing_for({n});
  const size_t ports = n->op == "batch_normalization" ? 1 : inputs.size();
  for (size_t port = 0; port < ports; ++port) {
    if (!inputs[port]) continue;
    PERI_ASSIGN(inputs[port], lifting.lifted(w, inputs[port]));
  }
  ir::Attrs attrs = n->attrs;
  if (n->op == "concat") attrs["axis"] = wrap_axis(n->i("axis", 0), kSignal);
  PERI_ASSIGN(ir::Value * y, w.make(n->op, std::move(inputs), std::move(attrs), n->out()));
  return lower_again(w, n, y);
}

Result<int64_t> run(ir::Graph& graph) {
  Lifting lifting;
  const auto rule = [&](Rewriter& w, ir::Node* n) -> Result<bool> {
    if (takes_windows(*n)) return lift(w, n, lifting);
    if (passes_axis(*n)) return move_past(w, n, lifting);
    return false;
  };
  return rewrite_all(graph, "lift_windows", rule, 100);
}

}  // namespace

extern const Entry lift_windows_entry;
const Entry lift_windows_entry{{
    .name = "lift_windows",
    .contract =
        "No convolution, transposed convolution or pooling has [batch, channels, length] for its input: each works on "
        "[batch, channels, 1, length], behind a view that adds the axis and before one that drops it, and the latter "
        "has moved past element-wise nodes, normalisation by channel and concatenation of channels, so that "
        "what follows a convolution still stands behind it. It stands behind fold_padding and fold_batch_norm, which "
        "know any number of "
        "axes, and before sink_transposes, where views that undo each other go.",
    .follows = {"fold_constants", "fold_batch_norm", "fold_padding"},
    .run = run,
    .examples =
        {{"a convolution of a signal and what follows it",
          "graph { input x: f32[batch,4,32]; const w: f32[8,4,5] = seeded(0.2, 1); const b: f32[8] = seeded(0.5, 2); "
          "const s: f32[8,1] = seeded(0.5, 3); a = conv(x, w, b) {dilations=[2], pads=[4, 4], strides=[1]}; c = mul(a, "
          "s); y = relu(c); output y }",
          "graph { input x: f32[batch,4,32]; const w: f32[8,4,1,5] = seeded(0.2, 1); const b: f32[8] = seeded(0.5, 2); "
          "const s: f32[8,1,1] = seeded(0.5, 3); const k: i64[1] = [2]; const m: i64[1] = [2]; u = unsqueeze(x, k); a "
          "= conv(u, w, b) {dilations=[1, 2], pads=[0, 4, 0, 4], strides=[1, 1]}; c = mul(a, s); d = relu(c); y = "
          "squeeze(d, m); output y }"},
         {"a residual of two convolutions",
          "graph { input x: f32[2,4,16]; const w: f32[4,4,3] = seeded(0.2, 1); a = conv(x, w) {pads=[1, 1]}; c = "
          "relu(a); y = add(c, x); output y }",
          "graph { input x: f32[2,4,16]; const w: f32[4,4,1,3] = seeded(0.2, 1); const k: i64[1] = [2]; const m: "
          "i64[1] = [2]; u = unsqueeze(x, k); a = conv(u, w) {pads=[0, 1, 0, 1]}; c = relu(a); "
          "d = add(c, u); y = squeeze(d, m); output y }"},
         {"pooling, and a transposed convolution",
          "graph { input x: f32[2,4,16]; const w: f32[4,2,4] = seeded(0.2, 1); a = max_pool(x) {ceil_mode=1, "
          "kernel_shape=[3], strides=[2]}; y = conv_transpose(a, w) {output_padding=[1], pads=[1, 1], strides=[2]}; "
          "output y }",
          "graph { input x: f32[2,4,16]; const w: f32[4,2,1,4] = seeded(0.2, 1); const k: i64[1] = [2]; const m: "
          "i64[1] = [2]; u = unsqueeze(x, k); a = max_pool(u) {ceil_mode=1, kernel_shape=[1, 3], strides=[1, 2]}; b = "
          "conv_transpose(a, w) {output_padding=[0, 1], pads=[0, 1, 0, 1], strides=[1, 2]}; y = squeeze(b, m); output "
          "y }"},
         {"an output shape that begins with the batch",
          "graph { input x: f32[2,3,h]; const w: f32[3,1,4] = seeded(0.3, 1); y = conv_transpose(x, w) "
          "{output_shape=[2, "
          "1, 9], strides=[3]}; output y }",
          "graph { input x: f32[2,3,h]; const w: f32[3,1,1,4] = seeded(0.3, 1); const k: i64[1] = [2]; const m: i64[1] "
          "= [2]; u = unsqueeze(x, k); a = conv_transpose(u, w) {output_shape=[1, 9], strides=[1, 3]}; y = squeeze(a, "
          "m); output y }"},
         {"an image stays one",
          "graph { input x: f32[2,4,5,6]; const w: f32[4,4,1,3] = seeded(0.2, 1); y = conv(x, w); output y }",
          "graph { input x: f32[2,4,5,6]; const w: f32[4,4,1,3] = seeded(0.2, 1); y = conv(x, w); output y }"}},
}};

}  // namespace peri::passes
