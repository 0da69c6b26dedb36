// RotaryEmbedding: pairs of each head rotated by the angle of their position; elements beyond rotary_embedding_dim are
// unchanged.
#include "ops/reference/cost.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/norm.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape& x = c.shape(0);
  const int64_t heads = c.node.i("num_heads"), turned = c.node.i("rotary_embedding_dim");
  if (x.size() != 3 && x.size() != 4)
    return invalid("x has a wrong rank")
        .expecting("[batch, heads, places, depth] or [batch, places, heads * depth]")
        .but_found(shape_text(x));
  if (x.size() == 3 && heads < 1)
    return invalid("num_heads is out of range").expecting(">= 1 with x of rank 3").but_found(std::to_string(heads));
  if (x.size() == 3 && x[2].is_const() && x[2].value() % heads != 0)
    return invalid("num_heads does not divide the last dimension")
        .expecting("a divisor of " + x[2].text())
        .but_found(std::to_string(heads));
  const Dim depth = x.size() == 4 ? x[3] : floordiv(x[2], Dim(heads));
  const Dim width = turned == 0 ? depth : Dim(turned);
  if (turned < 0 || (depth.is_const() && turned > depth.value()) || (width.is_const() && width.value() % 2 != 0))
    return invalid("rotary_embedding_dim is out of range")
        .expecting("an even number up to " + depth.text())
        .but_found(width.text());
  const size_t rank = c.has(3) ? 2 : 3;
  for (size_t port : {size_t{1}, size_t{2}}) {
    const Shape& s = c.shape(port);
    if (s.size() != rank || (s.back().is_const() && width.is_const() && s.back().value() * 2 != width.value()))
      return invalid("%s has a wrong shape", port == 1 ? "cos_cache" : "sin_cache")
          .expecting(format("rank %zu, last dimension %s", rank, floordiv(width, Dim(2)).text().c_str()))
          .but_found(shape_text(s));
  }
  if (c.has(3) && c.rank(3) != 2)
    return invalid("position_ids have a wrong rank").expecting("[batch, places]").but_found(shape_text(c.shape(3)));
  // Without position_ids each place has a row of its own in the caches, otherwise an index.
  const Shape places = {x[0], x[x.size() - 2]};
  const auto differ = [](const Dim& a, const Dim& b) { return a.is_const() && b.is_const() && !(a == b); };
  for (size_t port = c.has(3) ? 3 : 1; port <= (c.has(3) ? 3 : 2); ++port)
    if (const Shape& s = c.shape(port); differ(s[0], places[0]) || differ(s[1], places[1]))
      return invalid("%s do not fit x", port == 3   ? "position_ids"
                                        : port == 1 ? "cos_cache"
                                                    : "sin_cache")
          .expecting("for each batch and place: " + shape_text(places))
          .but_found(shape_text(s));
  if (differ(c.shape(1)[0], c.shape(2)[0]))
    return invalid("cos_cache and sin_cache differ in places")
        .expecting(c.shape(1)[0].text())
        .but_found(c.shape(2)[0].text());
  c.set(0, c.dtype(0), x);
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor &x = *call.in[0], &cosine = *call.in[1], &sine = *call.in[2];
  const RefTensor* ids = call.in.size() > 3 ? call.in[3] : nullptr;
  if (x.numel() == 0) return Ok{};
  const bool four = x.dims.size() == 4, interleaved = call.node.i("interleaved") != 0;
  const int64_t heads = four ? x.dims[1] : call.node.i("num_heads"), places = x.dims[four ? 2 : 1],
                depth = four ? x.dims[3] : x.dims[2] / heads;
  const int64_t width = call.node.i("rotary_embedding_dim") == 0 ? depth : call.node.i("rotary_embedding_dim"),
                half = width / 2;
  const int64_t rows = ids ? cosine.dims[0] : 0;
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), d = p % depth, place = (four ? p / depth : p / (depth * heads)) % places,
                  b = p / (heads * places * depth);
    if (d >= width) {
      copy_element(x, p, call.out[0], p);
      continue;
    }
    int64_t row = b * places + place;
    if (ids) {
      PERI_ASSIGN(row, checked_index(ids->i[static_cast<size_t>(row)], rows, 0));
    }
    const bool second = interleaved ? d % 2 == 1 : d >= half;
    const int64_t pair = interleaved ? d / 2 : d % half,
                  other = interleaved ? (second ? p - 1 : p + 1) : (second ? p - half : p + half),
                  at = row * half + pair;
    const Near own = times(element(&x, p, 0), element(&cosine, at, 1)),
               cross = times(element(&x, other, 0), element(&sine, at, 0));
    const double v = second ? own.v + cross.v : own.v - cross.v;
    store(call.out[0], p, {v, own.r + cross.r + 4 * call.u * (std::fabs(own.v) + std::fabs(cross.v))});
  }
  return Ok{};
}

Cost cost(const ir::Node& node) { return cost_per_element(node, 3); }

std::vector<Dim> index_ends(const ir::Node& node) { return leading_end(node.in(1)); }

}  // namespace

extern const Entry rotary_embedding_entry;
const Entry rotary_embedding_entry{{
    {.name = "rotary_embedding",
     .onnx = "RotaryEmbedding",
     .versions = {23},
     .inputs = {{"x", kFloats},
                {"cos_cache", kFloats, false, false, 0},
                {"sin_cache", kFloats, false, false, 0},
                {"position_ids", types({DType::kI64}), true, false, -1, Role::kIndex}},
     .outputs = {{"y"}},
     .attrs = {{"interleaved", AttrKind::kInt, false, "0"},
               {"num_heads", AttrKind::kInt, false, "needed with x of rank 3"},
               {"rotary_embedding_dim", AttrKind::kInt, false, "0: the depth of a head"}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .keeps_range = true,
     .index_ends = index_ends,
     .samples =
         {"graph { input x: f32[2,3,4,8]; input c: f32[10,4]; input s: f32[10,4]; const p: i64[2,4] = [0, 1, 2, "
          "3, 4, 5, 6, 9]; y = rotary_embedding(x, c, s, p); output y }",
          "graph { input x: f32[2,4,24]; input c: f32[2,4,2]; input s: f32[2,4,2]; y = rotary_embedding(x, c, "
          "s) {interleaved=1, num_heads=3, rotary_embedding_dim=4}; output y }",
          "graph { input x: f32[1,2,3,6]; input c: f32[5,3]; input s: f32[5,3]; const p: i64[1,3] = [4, 0, 2]; y "
          "= rotary_embedding(x, c, s, p) {interleaved=1}; output y }",
          "graph { input x: f32[0,3,4,8]; input c: f32[0,4,4]; input s: f32[0,4,4]; y = rotary_embedding(x, c, "
          "s); output y }"}},
}};
}  // namespace peri::ops
