// Pass fold_padding: zero padding of the input of a convolution is folded into its pads.
#include <algorithm>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// Zeros before and after each axis of a tensor of `rank`; none if the node pads in another way.
std::optional<std::vector<int64_t>> zeros_around(const ir::Node& pad, size_t rank) {
  const auto pads = numbers_of(pad.in(1));
  if (!pads || pad.s("mode", "constant") != "constant" || (pad.in(2) && scalar_of(pad.in(2)) != 0.0))
    return std::nullopt;
  std::vector<int64_t> axes(rank), out(2 * rank, 0);
  for (size_t k = 0; k < rank; ++k) axes[k] = static_cast<int64_t>(k);
  if (pad.in(3)) {
    const auto given = numbers_of(pad.in(3));
    if (!given) return std::nullopt;
    axes = *given;
  }
  if (pads->size() != 2 * axes.size()) return std::nullopt;
  for (size_t k = 0; k < axes.size(); ++k) {
    const size_t axis = static_cast<size_t>(wrap_axis(axes[k], rank));
    out[axis] = (*pads)[k];
    out[rank + axis] = (*pads)[axes.size() + k];
  }
  return out;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  ir::Node* pad = n->op == "conv" ? made_by(n->in(0), "pad") : nullptr;
  if (!pad || n->s("auto_pad", "NOTSET") != "NOTSET") return false;
  const size_t rank = n->in(0)->type.rank(), spatial = rank - 2;
  const auto around = zeros_around(*pad, rank);
  if (!around || std::any_of(around->begin(), around->end(), [](int64_t p) { return p < 0; })) return false;
  if ((*around)[0] || (*around)[1] || (*around)[rank] || (*around)[rank + 1]) return false;
  std::vector<int64_t> pads = n->ints("pads", std::vector<int64_t>(2 * spatial, 0));
  for (size_t k = 0; k < spatial; ++k) {
    pads[k] += (*around)[2 + k];
    pads[spatial + k] += (*around)[rank + 2 + k];
  }
  std::vector<ir::Value*> inputs = n->inputs;
  inputs[0] = pad->in(0);
  ir::Attrs attrs = n->attrs;
  attrs["pads"] = pads;
  w.standing_for({pad, n});
  PERI_ASSIGN(ir::Value * y, w.make("conv", std::move(inputs), std::move(attrs), n->out()));
  w.replace(n->out(), y);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "fold_padding", rule); }

}  // namespace

extern const Entry fold_padding_entry;
const Entry fold_padding_entry{{
    .name = "fold_padding",
    .contract =
        "No pad with zeros around spatial axes stands before a convolution with explicit pads: its pads hold them.",
    .follows = {"fold_constants"},
    .run = run,
    .examples = {{"zeros on one side",
                  "graph { input x: f32[1,1,4,4]; const w: f32[1,1,2,2] = seeded(1.0, 1); const p: i64[8] = [0, 0, 0, "
                  "1, 0, 0, 2, 1]; a = "
                  "pad(x, p); y = conv(a, w) {pads=[1, 1, 0, 0]}; output y }",
                  "graph { input x: f32[1,1,4,4]; const w: f32[1,1,2,2] = seeded(1.0, 1); y = conv(x, w) {pads=[1, 2, "
                  "2, 1]}; output y }"},
                 {"chosen axes",
                  "graph { input x: f32[1,1,4,4]; const w: f32[1,1,2,2] = seeded(1.0, 1); const p: i64[2] = [1, 1]; "
                  "const v: f32[] = [0.0]; "
                  "const c: i64[1] = [-1]; a = pad(x, p, v, c); y = conv(a, w); output y }",
                  "graph { input x: f32[1,1,4,4]; const w: f32[1,1,2,2] = seeded(1.0, 1); y = conv(x, w) {pads=[0, 1, "
                  "0, 1]}; output y }"},
                 {"ones stay",
                  "graph { input x: f32[1,1,4,4]; const w: f32[1,1,2,2] = seeded(1.0, 1); const p: i64[8] = [0, 0, 0, "
                  "1, 0, 0, 2, 1]; const v: "
                  "f32[] = [1.0]; a = pad(x, p, v); y = conv(a, w); output y }",
                  "graph { input x: f32[1,1,4,4]; const w: f32[1,1,2,2] = seeded(1.0, 1); const p: i64[8] = [0, 0, 0, "
                  "1, 0, 0, 2, 1]; const v: "
                  "f32[] = [1.0]; a = pad(x, p, v); y = conv(a, w); output y }"}},
}};

}  // namespace peri::passes
