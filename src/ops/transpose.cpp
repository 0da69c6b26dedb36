// Transpose: output axis k is input axis perm[k]; without perm the axes are reversed.
#include "ops/shape/any_size.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
Result<std::vector<int64_t>> permutation(const ir::Node& node, size_t rank) {
  std::vector<int64_t> perm = node.ints("perm");
  if (!node.has("perm"))
    for (size_t k = rank; k-- > 0;) perm.push_back(static_cast<int64_t>(k));
  std::vector<bool> seen(rank);
  bool good = perm.size() == rank;
  for (int64_t p : perm) {
    good = good && p >= 0 && p < static_cast<int64_t>(rank) && !seen[static_cast<size_t>(p)];
    if (good) seen[static_cast<size_t>(p)] = true;
  }
  if (!good) return invalid("perm of transpose is not a permutation").expecting(format("each of %zu axes once", rank));
  return perm;
}

// Strides of the input along the axes of the output.
std::vector<int64_t> strides_under(const std::vector<int64_t>& perm, const std::vector<int64_t>& in) {
  const std::vector<int64_t> own = strides_of(in);
  std::vector<int64_t> out;
  for (int64_t p : perm) out.push_back(own[static_cast<size_t>(p)]);
  return out;
}
Result<std::vector<int64_t>> strides_under(const ir::Node& node, const std::vector<int64_t>& in) {
  PERI_ASSIGN(const std::vector<int64_t> perm, permutation(node, in.size()));
  return strides_under(perm, in);
}

Status infer(InferContext& c) {
  PERI_ASSIGN(const std::vector<int64_t> perm, permutation(c.node, c.rank(0)));
  Shape out;
  for (int64_t p : perm) out.push_back(c.shape(0)[static_cast<size_t>(p)]);
  c.set(0, c.dtype(0), std::move(out));
  std::vector<int64_t> strides;
  content_moved(c, 0, [&](int64_t p, const std::vector<int64_t>& in, const std::vector<int64_t>& out) {
    if (strides.empty()) strides = strides_under(perm, in);
    return broadcast_index(p, out, strides);
  });
  return Ok{};
}

Status reference(RefCall& call) {
  PERI_ASSIGN(const std::vector<int64_t> strides, strides_under(call.node, call.in[0]->dims));
  return move_elements(call, *call.in[0], [&](int64_t p) { return broadcast_index(p, call.out[0].dims, strides); });
}
bool pull(const ir::Node& node, size_t, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  auto strides = strides_under(node, concrete(*node.in(0)));
  if (!strides.ok()) return false;
  const std::vector<int64_t> out = concrete(*node.out());
  needed->clear();
  for (int64_t p : positions) needed->push_back(broadcast_index(p, out, *strides));
  sort_unique(needed);
  return true;
}
}  // namespace

extern const Entry transpose_entry;
const Entry transpose_entry{{
    {.name = "transpose",
     .onnx = "Transpose",
     .versions = {1, 13, 21, 23, 24, 25},
     .inputs = {{"x", kMovable}},
     .outputs = {{"y"}},
     .attrs = {{"perm", AttrKind::kInts, false, "axes reversed"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .moves = true,
     .any_size = any_size_of_one_input,
     .samples = {"graph { input x: f32[2,3,5]; y = transpose(x); output y }",
                 "graph { input x: f32[2,3,4,5]; y = transpose(x) {perm=[0, 2, 3, 1]}; output y }",
                 "graph { input x: i64[2,1,3]; y = transpose(x) {perm=[1, 0, 2]}; output y }",
                 "graph { input x: f16[3,0]; y = transpose(x); output y }",
                 "graph { input x: f32[]; y = transpose(x); output y }",
                 "graph { input x: f32[7]; y = transpose(x) {perm=[0]}; output y }"}},
}};
}  // namespace peri::ops
