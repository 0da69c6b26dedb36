// Depth_to_space and space_to_depth: blocks of channels become blocks of pixels and vice versa, in DCR or CRD order.
#include "ops/reference/elements.hpp"

namespace peri::ops {
namespace {
Result<int64_t> block_of(const ir::Node& node) {
  const int64_t b = node.i("blocksize");
  if (b < 1 || b > (1 << 20))
    return invalid("%s has a bad blocksize", node.op.c_str()).expecting("1 or more").but_found(std::to_string(b));
  const std::string mode = node.s("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return invalid("%s has an unknown mode", node.op.c_str()).expecting("DCR or CRD").but_found(mode);
  return b;
}

Status infer(InferContext& c) {
  PERI_ASSIGN(const int64_t b, block_of(c.node));
  if (c.rank(0) != 4)
    return invalid("%s needs an input of rank 4", c.node.op.c_str()).but_found(shape_text(c.shape(0)));
  const Shape& x = c.shape(0);
  const bool to_space = c.node.op == "depth_to_space";
  const auto divided = [&](const Dim& d, int64_t by) -> Result<Dim> {
    if (d.is_const() && d.value() % by != 0)
      return invalid("%s does not divide evenly", c.node.op.c_str())
          .expecting(format("a multiple of %ld", by))
          .but_found(d.text());
    return floordiv(d, Dim(by));
  };
  Shape out = {x[0], x[1] * Dim(b * b), Dim(0), Dim(0)};
  if (to_space) {
    PERI_ASSIGN(out[1], divided(x[1], b * b));
    out[2] = x[2] * Dim(b);
    out[3] = x[3] * Dim(b);
  } else {
    PERI_ASSIGN(out[2], divided(x[2], b));
    PERI_ASSIGN(out[3], divided(x[3], b));
  }
  c.set(0, c.dtype(0), std::move(out));
  return Ok{};
}

// Flat position on the deep side of a position on the wide side.
struct Blocks {
  int64_t b, channels, height, width;  // of the wide side
  bool depth_first;                    // DCR
  int64_t deep(int64_t p) const {
    const int64_t w = p % width, h = p / width % height, c = p / (width * height) % channels,
                  n = p / (width * height * channels);
    const int64_t offset = h % b * b + w % b, channel = depth_first ? offset * channels + c : c * b * b + offset;
    return ((n * channels * b * b + channel) * (height / b) + h / b) * (width / b) + w / b;
  }
  int64_t wide(int64_t p) const {
    const int64_t small_w = width / b, small_h = height / b;
    const int64_t w = p % small_w, h = p / small_w % small_h, channel = p / (small_w * small_h) % (channels * b * b),
                  n = p / (small_w * small_h * channels * b * b);
    const int64_t offset = depth_first ? channel / channels : channel % (b * b),
                  c = depth_first ? channel % channels : channel / (b * b);
    return ((n * channels + c) * height + h * b + offset / b) * width + w * b + offset % b;
  }
};
Blocks blocks_of(const ir::Node& node, const std::vector<int64_t>& wide) {
  return {node.i("blocksize"), wide[1], wide[2], wide[3], node.s("mode", "DCR") == "DCR"};
}

template <bool ToSpace>
Status reference(RefCall& call) {
  const Blocks blocks = blocks_of(call.node, ToSpace ? call.out[0].dims : call.in[0]->dims);
  return move_elements(call, *call.in[0], [&](int64_t p) { return ToSpace ? blocks.deep(p) : blocks.wide(p); });
}
template <bool ToSpace>
bool pull(const ir::Node& node, size_t, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const Blocks blocks = blocks_of(node, concrete(*(ToSpace ? node.outputs[0] : node.inputs[0])));
  needed->clear();
  for (int64_t p : positions) needed->push_back(ToSpace ? blocks.deep(p) : blocks.wide(p));
  sort_unique(needed);
  return true;
}

template <bool ToSpace>
OpDef block_op(std::string_view name, std::string_view onnx, std::vector<int> versions,
               std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = std::move(versions),
          .inputs = {{"x", kMovable}},
          .outputs = {{"y"}},
          .attrs = {{"blocksize", AttrKind::kInt, true}, {"mode", AttrKind::kString, false, "DCR"}},
          .infer = infer,
          .reference = reference<ToSpace>,
          .pull = pull<ToSpace>,
          .cost = cost_move,
          .moves = true,
          .samples = std::move(samples)};
}
}  // namespace

extern const Entry depth_to_space_entry;
const Entry depth_to_space_entry{{
    block_op<true>("depth_to_space", "DepthToSpace", {1, 11, 13, 28},
                   {"graph { input x: f32[2,12,2,3]; y = depth_to_space(x) {blocksize=2}; output y }",
                    "graph { input x: i32[1,18,2,1]; y = depth_to_space(x) {blocksize=3, mode=\"CRD\"}; output y }",
                    "graph { input x: f16[0,4,2,2]; y = depth_to_space(x) {blocksize=2}; output y }"}),
    block_op<false>("space_to_depth", "SpaceToDepth", {1, 13, 28},
                    {"graph { input x: f32[2,3,4,6]; y = space_to_depth(x) {blocksize=2}; output y }",
                     "graph { input x: i32[1,2,6,3]; y = space_to_depth(x) {blocksize=3, mode=\"CRD\"}; output y }",
                     "graph { input x: f16[1,2,0,2]; y = space_to_depth(x) {blocksize=2}; output y }"}),
}};
}  // namespace peri::ops
