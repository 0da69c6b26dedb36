// Matching of nodes that move elements.
#include "kernels/match/copies.hpp"

#include <algorithm>

namespace peri::kernels {
namespace {
// Logical dims and strides of a value in its layout (no blocked axes).
struct Placed {
  std::vector<int64_t> dims, strides;
  int64_t size = 1;
};
Result<Placed> place(const ir::Value& v) {
  if (v.type.layout.block_axis >= 0) return refused("a blocked layout");
  Placed p;
  p.dims = dims_of(v);
  p.strides.resize(p.dims.size());
  for (size_t k = p.dims.size(); k-- > 0;) {
    const size_t axis = v.type.layout.order.empty() ? k : v.type.layout.order[k];
    p.strides[axis] = p.size;
    p.size *= p.dims[axis];
  }
  return p;
}

Copy start(const ir::Value* from, const Placed& x, const Placed& y, int element_bytes) {
  Copy c;
  c.from = from;
  c.shape.element_bytes = element_bytes;
  c.shape.dims = y.dims;
  c.shape.from_strides = x.strides;
  c.shape.to_strides = y.strides;
  c.shape.from_size = x.size;
  c.shape.to_size = y.size;
  return c;
}

Result<std::vector<Copy>> transpose(const ir::Node& n, const Placed& x, const Placed& y, int bytes) {
  std::vector<int64_t> perm = n.ints("perm");
  if (perm.empty())
    for (size_t k = x.dims.size(); k-- > 0;) perm.push_back(static_cast<int64_t>(k));
  Copy c = start(n.in(0), x, y, bytes);
  for (size_t k = 0; k < perm.size(); ++k) c.shape.from_strides[k] = x.strides[static_cast<size_t>(perm[k])];
  return std::vector<Copy>{std::move(c)};
}

Result<std::vector<Copy>> expand(const ir::Node& n, const Placed& x, const Placed& y, int bytes) {
  Copy c = start(n.in(0), x, y, bytes);
  c.shape.from_strides.assign(y.dims.size(), 0);
  const size_t skip = y.dims.size() - x.dims.size();
  for (size_t k = 0; k < x.dims.size(); ++k) c.shape.from_strides[skip + k] = x.dims[k] == 1 ? 0 : x.strides[k];
  return std::vector<Copy>{std::move(c)};
}

Result<std::vector<Copy>> slice(const ir::Node& n, const Placed& x, const Placed& y, int bytes) {
  const ops::InferContext context{n, {}, {}, nullptr};
  PERI_ASSIGN(const std::vector<int64_t> starts, context.constants(1, "starts"));
  std::vector<int64_t> axes, steps(starts.size(), 1);
  for (size_t k = 0; k < starts.size(); ++k) axes.push_back(static_cast<int64_t>(k));
  if (n.in(3)) {
    PERI_ASSIGN(axes, context.constants(3, "axes"));
  }
  if (n.in(4)) {
    PERI_ASSIGN(steps, context.constants(4, "steps"));
  }
  if (axes.size() != starts.size() || steps.size() != starts.size())
    return refused("starts, axes and steps differ in number");
  Copy c = start(n.in(0), x, y, bytes);
  const int64_t rank = static_cast<int64_t>(x.dims.size());
  for (size_t k = 0; k < starts.size(); ++k) {
    const int64_t axis = axes[k] < 0 ? axes[k] + rank : axes[k];
    if (axis < 0 || axis >= rank || steps[k] == 0) return refused("a bad slice");
    const size_t a = static_cast<size_t>(axis);
    const int64_t d = x.dims[a];
    int64_t first = starts[k] < 0 ? starts[k] + d : starts[k];
    first =
        steps[k] > 0 ? std::clamp<int64_t>(first, 0, d) : std::clamp<int64_t>(first, 0, std::max<int64_t>(d - 1, 0));
    c.shape.from_offset += first * x.strides[a];
    const int64_t most = std::max<int64_t>(d, 1);  // a step beyond the axis takes one element
    c.shape.from_strides[a] = x.strides[a] * std::clamp(steps[k], -most, most);
  }
  return std::vector<Copy>{std::move(c)};
}

Result<int64_t> axis_of(const ir::Node& n, size_t rank, int64_t fallback) {
  const int64_t axis = n.i("axis", fallback), r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r) return refused("a bad axis");
  return axis < 0 ? axis + r : axis;
}

Result<std::vector<Copy>> concat(const ir::Node& n, const Placed& y, int bytes) {
  PERI_ASSIGN(const int64_t axis, axis_of(n, y.dims.size(), 0));
  std::vector<Copy> out;
  int64_t at = 0;
  for (const ir::Value* v : n.inputs) {
    PERI_ASSIGN(const Placed x, place(*v));
    Copy c = start(v, x, y, bytes);
    c.shape.dims = x.dims;
    c.shape.to_offset = at * y.strides[static_cast<size_t>(axis)];
    at += x.dims[static_cast<size_t>(axis)];
    if (x.size > 0) out.push_back(std::move(c));
  }
  return out;
}

Result<std::vector<Copy>> split(const Problem& p, const ir::Node& n, const Placed& x, int bytes) {
  PERI_ASSIGN(const int64_t axis, axis_of(n, x.dims.size(), 0));
  std::vector<Copy> out;
  int64_t at = 0;
  for (const ir::Value* v : n.outputs) {
    PERI_ASSIGN(const Placed y, place(*v));
    const auto it = std::find(p.graph->outputs.begin(), p.graph->outputs.end(), v);
    if (it != p.graph->outputs.end()) {
      Copy c = start(n.in(0), x, y, bytes);
      c.output = static_cast<size_t>(it - p.graph->outputs.begin());
      c.shape.from_offset = at * x.strides[static_cast<size_t>(axis)];
      if (y.size > 0) out.push_back(std::move(c));
    }
    at += y.dims[static_cast<size_t>(axis)];
  }
  return out;
}
// Each axis as two, of which the outer one repeats.
std::vector<Copy> tile(const ir::Node& n, const Placed& x, const Placed& y, int bytes) {
  Copy c = start(n.in(0), x, y, bytes);
  c.shape.dims.clear();
  c.shape.from_strides.clear();
  c.shape.to_strides.clear();
  for (size_t k = 0; k < x.dims.size(); ++k) {
    const int64_t d = x.dims[k], times = d == 0 ? 0 : y.dims[k] / d;
    c.shape.dims.insert(c.shape.dims.end(), {times, d});
    c.shape.from_strides.insert(c.shape.from_strides.end(), {0, x.strides[k]});
    c.shape.to_strides.insert(c.shape.to_strides.end(), {y.strides[k] * d, y.strides[k]});
  }
  return {std::move(c)};
}

// Blocks of channels and blocks of pixels: both sides as [n, row in block, column in block, channel, row, column].
Result<std::vector<Copy>> blocks(const ir::Node& n, const Placed& x, const Placed& y, int bytes) {
  const bool to_space = n.op == "depth_to_space";
  const Placed &wide = to_space ? y : x, &deep = to_space ? x : y;
  const int64_t b = n.i("blocksize", 1);
  if (b < 1 || wide.dims.size() != 4) return refused("a bad blocksize");
  const int64_t channels = wide.dims[1],
                in_block = n.s("mode", "DCR") == "DCR" ? deep.strides[1] * channels : deep.strides[1],
                by_channel = n.s("mode", "DCR") == "DCR" ? deep.strides[1] : deep.strides[1] * b * b;
  const std::vector<int64_t> of_wide = {wide.strides[0], wide.strides[2],     wide.strides[3],
                                        wide.strides[1], wide.strides[2] * b, wide.strides[3] * b};
  const std::vector<int64_t> of_deep = {deep.strides[0], in_block * b,    in_block,
                                        by_channel,      deep.strides[2], deep.strides[3]};
  Copy c = start(n.in(0), x, y, bytes);
  c.shape.dims = {wide.dims[0], b, b, channels, wide.dims[2] / b, wide.dims[3] / b};
  c.shape.from_strides = to_space ? of_deep : of_wide;
  c.shape.to_strides = to_space ? of_wide : of_deep;
  return std::vector<Copy>{std::move(c)};
}
}  // namespace

Result<std::vector<Copy>> read_copies(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  const bool known = n.op == "transpose" || n.op == "slice" || n.op == "expand" || n.op == "concat" ||
                     n.op == "split" || n.op == "relayout" || n.op == "tile" || n.op == "depth_to_space" ||
                     n.op == "space_to_depth";
  if (!known) return refused("does not only move elements");
  const int bytes = dtype_size(n.in(0)->type.dtype);
  if (bytes == 0) return refused("elements of %s", dtype_name(n.in(0)->type.dtype).data());
  PERI_ASSIGN(const Placed x, place(*n.in(0)));
  if (n.op == "split") return split(p, n, x, bytes);
  PERI_ASSIGN(const Placed y, place(*n.out()));
  if (n.op == "transpose") return transpose(n, x, y, bytes);
  if (n.op == "slice") return slice(n, x, y, bytes);
  if (n.op == "expand") return expand(n, x, y, bytes);
  if (n.op == "concat") return concat(n, y, bytes);
  if (n.op == "tile") return tile(n, x, y, bytes);
  if (n.op != "relayout") return blocks(n, x, y, bytes);
  return std::vector<Copy>{start(n.in(0), x, y, bytes)};
}

}  // namespace peri::kernels
