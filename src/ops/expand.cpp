// Expand (numpy broadcasting to a shape) and tile (repeats along every axis).
#include "ops/reference/elements.hpp"
#include "ops/reference/unary.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
// Which elements of the list of input 1 are known before the run: all, or those of a list that was joined of parts.
std::vector<bool> known_elements(InferContext& c, size_t count) {
  std::vector<bool> out(count, c.known(1) != nullptr);
  const auto joined = joined_elements(*c.node.in(1));
  for (size_t k = 0; k < count && joined.size() == count; ++k) out[k] = out[k] || joined[k].has_value();
  return out;
}

Status infer_expand(InferContext& c) {
  PERI_ASSIGN(const Shape wanted, shape_from(c, 1, "expanded"));
  PERI_ASSIGN(Shape out, broadcast(c.shape(0), wanted));
  // A shape that only a run knows decides the size of every axis for which it is no number: 1 may become anything.
  const std::vector<bool> known = known_elements(c, wanted.size());
  for (size_t k = 1; k <= wanted.size(); ++k)
    if (!out[out.size() - k].is_const() && !known[wanted.size() - k]) out[out.size() - k] = wanted[wanted.size() - k];
  c.set(0, c.dtype(0), std::move(out));
  content_moved(
      c, 0, [](int64_t p, const std::vector<int64_t>& in, const std::vector<int64_t>& to) { return Under(in, to)(p); });
  return Ok{};
}
Status expand(RefCall& call) {
  const Under under(call.in[0]->dims, call.out[0].dims);
  return move_elements(call, *call.in[0], under);
}
bool pull_expand(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  return port == 0 && pull_broadcast(node, port, positions, needed);
}

int64_t tiled_source(int64_t p, const std::vector<int64_t>& out, const std::vector<int64_t>& in,
                     const std::vector<int64_t>& strides) {
  int64_t at = 0;
  for (size_t k = out.size(); k-- > 0;) {
    at += p % out[k] % in[k] * strides[k];
    p /= out[k];
  }
  return at;
}
Status infer_tile(InferContext& c) {
  PERI_ASSIGN(const Shape repeats, shape_from(c, 1, "repeats"));
  if (repeats.size() != c.rank(0))
    return invalid("tile needs one repeat for each axis")
        .expecting(std::to_string(c.rank(0)))
        .but_found(std::to_string(repeats.size()));
  Shape out;
  // Unknown repeats: a fresh dimension is the size itself, since a step can bind names only, not factors.
  const std::vector<bool> known = known_elements(c, repeats.size());
  for (size_t k = 0; k < repeats.size(); ++k) out.push_back(known[k] ? c.shape(0)[k] * repeats[k] : repeats[k]);
  c.set(0, c.dtype(0), std::move(out));
  content_moved(c, 0, [](int64_t p, const std::vector<int64_t>& in, const std::vector<int64_t>& to) {
    return tiled_source(p, to, in, strides_of(in));
  });
  return Ok{};
}
Status tile(RefCall& call) {
  const std::vector<int64_t>& in = call.in[0]->dims;
  const std::vector<int64_t> strides = strides_of(in);
  return move_elements(call, *call.in[0], [&](int64_t p) { return tiled_source(p, call.out[0].dims, in, strides); });
}
bool pull_tile(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  const std::vector<int64_t> in = concrete(*node.in(0)), out = concrete(*node.out()), strides = strides_of(in);
  needed->clear();
  for (int64_t p : positions) needed->push_back(tiled_source(p, out, in, strides));
  sort_unique(needed);
  return true;
}
}  // namespace

extern const Entry expand_entry;
const Entry expand_entry{{
    {.name = "expand",
     .onnx = "Expand",
     .versions = {8, 13},
     .inputs = {{"x", kMovable}, {"shape", types({DType::kI64})}},
     .outputs = {{"y"}},
     .infer = infer_expand,
     .reference = expand,
     .pull = pull_expand,
     .cost = cost_move,
     .moves = true,
     .samples = {"graph { input x: f32[3,1]; const s: i64[3] = [2, 1, 4]; y = expand(x, s); output y }",
                 "graph { input x: i64[]; const s: i64[2] = [2, 3]; y = expand(x, s); output y }",
                 "graph { input x: f32[2,3]; const s: i64[1] = [1]; y = expand(x, s); output y }",
                 "graph { input x: bool[1,3]; const s: i64[2] = [0, 3]; y = expand(x, s); output y }"}},
    {.name = "tile",
     .onnx = "Tile",
     .versions = {6, 13},
     .inputs = {{"x", kMovable}, {"repeats", types({DType::kI64})}},
     .outputs = {{"y"}},
     .infer = infer_tile,
     .reference = tile,
     .pull = pull_tile,
     .cost = cost_move,
     .moves = true,
     .samples = {"graph { input x: f32[2,3]; const r: i64[2] = [2, 3]; y = tile(x, r); output y }",
                 "graph { input x: i32[4]; const r: i64[1] = [1]; y = tile(x, r); output y }",
                 "graph { input x: f32[2,3]; const r: i64[2] = [0, 1]; y = tile(x, r); output y }"}},
}};
}  // namespace peri::ops
