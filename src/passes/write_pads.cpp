// Pass write_pads: pads of a transposed convolution that follow from its output's extent become numbers.
#include <algorithm>

#include "ops/shape/window.hpp"
#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// Whether a transposed convolution says its pads in another way than by numbers.
bool says_otherwise(const ir::Node& n) {
  const std::string mode = n.s("auto_pad", "NOTSET");
  return n.op == "conv_transpose" && ((mode != "NOTSET" && !mode.empty()) || n.has("output_shape"));
}

struct Pads {
  std::vector<int64_t> around;  // begins, then ends
  std::vector<int64_t> extra;   // behind the last product
};

// None: they depend on a size that is not known.
std::optional<Pads> pads_of(const ir::Node& n, const ops::WindowSpec& spec) {
  const Shape &x = *n.in(0)->type.shape, &y = *n.out()->type.shape;
  const size_t spatial = spec.window.rank();
  Pads out{std::vector<int64_t>(2 * spatial, 0), n.ints("output_padding", std::vector<int64_t>(spatial, 0))};
  for (size_t d = 0; d < spatial; ++d) {
    const ops::Window& w = spec.window;
    const Dim more = (x[d + 2] - 1) * w.stride[d] + w.reach(d) + out.extra[d] - y[d + 2];
    if (!more.is_const()) return std::nullopt;
    const int64_t total = std::max<int64_t>(more.value(), 0), half = total / 2;
    out.around[d] = spec.auto_pad == ops::AutoPad::kSameUpper ? half : total - half;
    out.around[spatial + d] = total - out.around[d];
    out.extra[d] += total - more.value();
  }
  return out;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (!says_otherwise(*n) || !n->in(0)->type.known() || !n->out()->type.known()) return false;
  const Shape& weights = *n->in(1)->type.shape;
  std::vector<int64_t> kernel;
  for (size_t d = 2; d < weights.size(); ++d) kernel.push_back(weights[d].value());
  PERI_ASSIGN(const ops::WindowSpec spec, ops::window_spec(*n, std::move(kernel)));
  const std::optional<Pads> pads = pads_of(*n, spec);
  if (!pads) return false;
  ir::Attrs attrs = n->attrs;
  attrs.erase("auto_pad");
  attrs.erase("output_shape");
  attrs["pads"] = pads->around;
  attrs["output_padding"] = pads->extra;
  w.standing_for({n});
  PERI_ASSIGN(ir::Value * y, w.make("conv_transpose", n->inputs, std::move(attrs), n->out()));
  w.replace(n->out(), y);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "write_pads", rule); }

}  // namespace

extern const Entry write_pads_entry;
const Entry write_pads_entry{{
    .name = "write_pads",
    .contract = "No transposed convolution has auto_pad or output_shape whose pads are the same at all sizes of its "
                "input: its pads and its output_padding hold them, which is what its kernels read.",
    .follows = {"fold_constants"},
    .run = run,
    .examples = {{"the odd element at the end, at any size",
                  "graph { input x: f32[n,2,h,5]; const w: f32[2,3,3,4] = seeded(0.3, 1); y = conv_transpose(x, w) "
                  "{auto_pad=\"SAME_UPPER\", strides=[2,2]}; output y }",
                  "graph { input x: f32[n,2,h,5]; const w: f32[2,3,3,4] = seeded(0.3, 1); y = conv_transpose(x, w) "
                  "{output_padding=[0,0], pads=[0,1,1,1], strides=[2,2]}; output y }"},
                 {"the odd element at the beginning; a stride longer than the window",
                  "graph { input x: f32[1,2,h,5]; const w: f32[2,3,3,1] = seeded(0.3, 1); y = conv_transpose(x, w) "
                  "{auto_pad=\"SAME_LOWER\", strides=[2,3]}; output y }",
                  "graph { input x: f32[1,2,h,5]; const w: f32[2,3,3,1] = seeded(0.3, 1); y = conv_transpose(x, w) "
                  "{output_padding=[0,2], pads=[1,0,0,0], strides=[2,3]}; output y }"},
                 {"an output that is larger, and one that is smaller",
                  "graph { input x: f32[1,1,3,3]; const w: f32[1,2,3,3] = seeded(0.3, 1); y = conv_transpose(x, w) "
                  "{output_padding=[1,1], output_shape=[11,5], strides=[3,2]}; output y }",
                  "graph { input x: f32[1,1,3,3]; const w: f32[1,2,3,3] = seeded(0.3, 1); y = conv_transpose(x, w) "
                  "{output_padding=[2,1], pads=[0,2,0,1], strides=[3,2]}; output y }"},
                 {"no pads",
                  "graph { input x: f32[1,1,h,3]; const w: f32[1,2,3,3] = seeded(0.3, 1); y = conv_transpose(x, w) "
                  "{auto_pad=\"VALID\"}; output y }",
                  "graph { input x: f32[1,1,h,3]; const w: f32[1,2,3,3] = seeded(0.3, 1); y = conv_transpose(x, w) "
                  "{output_padding=[0,0], pads=[0,0,0,0]}; output y }"},
                 {"an output of a size that does not follow the input's stays",
                  "graph { input x: f32[1,1,h,3]; const w: f32[1,2,3,3] = seeded(0.3, 1); y = conv_transpose(x, w) "
                  "{output_shape=[8,5]}; output y }",
                  "graph { input x: f32[1,1,h,3]; const w: f32[1,2,3,3] = seeded(0.3, 1); y = conv_transpose(x, w) "
                  "{output_shape=[8,5]}; output y }"}},
}};

}  // namespace peri::passes
