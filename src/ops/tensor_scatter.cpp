// TensorScatter: a cache with an update written along one axis, from an index per batch; `circular` wraps around to the
// start of the axis, `linear` must fit.
#include "ops/reference/elements.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape &cache = c.shape(0), &update = c.shape(1);
  const std::string mode = c.node.s("mode", "linear");
  if (mode != "linear" && mode != "circular")
    return invalid("mode is unknown").expecting("linear or circular").but_found(mode);
  PERI_ASSIGN(const int64_t axis, normalize_axis(c.node.i("axis", -2), cache.size()));
  if (axis == 0) return invalid("axis names the batch").expecting("another axis").but_found("0");
  bool fits = cache.size() == update.size();
  for (size_t d = 0; fits && d < cache.size(); ++d)
    if (cache[d].is_const() && update[d].is_const())
      fits = static_cast<int64_t>(d) == axis ? update[d].value() <= cache[d].value() : cache[d] == update[d];
  if (!fits)
    return invalid("the update does not fit the cache").expecting(shape_text(cache)).but_found(shape_text(update));
  if (c.has(2)) {
    const Shape& s = c.shape(2);
    if (s.size() != 1 || (s[0].is_const() && cache[0].is_const() && !(s[0] == cache[0])))
      return invalid("write_indices have a wrong shape")
          .expecting("[" + cache[0].text() + "]")
          .but_found(shape_text(s));
  }
  c.set(0, c.dtype(0), cache);
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor &cache = *call.in[0], &update = *call.in[1];
  const RefTensor* first = call.in.size() > 2 ? call.in[2] : nullptr;
  PERI_ASSIGN(const int64_t axis, normalize_axis(call.node.i("axis", -2), cache.dims.size()));
  const size_t a = static_cast<size_t>(axis);
  const bool circular = call.node.s("mode", "linear") == "circular";
  const int64_t extent = cache.dims[a], length = update.dims[a], inner = span_of(cache.dims, a + 1, cache.dims.size());
  for (int64_t p = 0; p < cache.numel(); ++p) copy_element(cache, p, call.out[0], p);
  if (update.numel() == 0) return Ok{};
  const int64_t outer = span_of(cache.dims, 0, a), per_batch = outer / cache.dims[0];
  for (int64_t row = 0; row < outer; ++row) {
    const int64_t begin = first ? first->i[static_cast<size_t>(row / per_batch)] : 0;
    if (begin < 0 || (!circular && begin > extent - length))
      return invalid("a write index is out of range")
          .expecting(format("[0, %lld]", static_cast<long long>(circular ? INT64_MAX : extent - length)))
          .but_found(std::to_string(begin));
    for (int64_t k = 0; k < length; ++k) {
      const int64_t to = (row * extent + (begin % extent + k) % extent) * inner, from = (row * length + k) * inner;
      for (int64_t e = 0; e < inner; ++e) copy_element(update, from + e, call.out[0], to + e);
    }
  }
  return Ok{};
}

bool pull(const ir::Node&, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  needed->assign(positions.begin(), positions.end());
  return true;
}

// From where the whole update fits.
std::vector<Dim> index_ends(const ir::Node& node) {
  const std::vector<Dim> have = axis_end(node, -2), more = node.in(1) ? axis_end(node, -2, 1) : have;
  return have.empty() || more.empty() ? std::vector<Dim>() : std::vector<Dim>{have[0] - more[0] + 1};
}

}  // namespace

extern const Entry tensor_scatter_entry;
const Entry tensor_scatter_entry{{
    {.name = "tensor_scatter",
     .onnx = "TensorScatter",
     .versions = {24},
     .inputs = {{"past_cache", kMovable},
                {"update", kMovable, false, false, 0},
                {"write_indices", types({DType::kI64}), true, false, -1, Role::kIndex}},
     .outputs = {{"present_cache"}},
     .attrs = {{"axis", AttrKind::kInt, false, "-2"}, {"mode", AttrKind::kString, false, "linear"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .moves = true,
     .index_ends = index_ends,
     .samples =
         {"graph { input p: f32[2,2,5,3]; input x: f32[2,2,2,3]; const w: i64[2] = [0, 3]; y = tensor_scatter(p, x, "
          "w); "
          "output y }",
          "graph { input p: f16[2,4,3]; input x: f16[2,3,3]; const w: i64[2] = [3, 6]; y = tensor_scatter(p, x, w) "
          "{mode=\"circular\"}; output y }",
          "graph { input p: i32[1,2,3]; input x: i32[1,2,2]; y = tensor_scatter(p, x) {axis=2}; output y }",
          "graph { input p: f32[0,4,3]; input x: f32[0,2,3]; y = tensor_scatter(p, x); output y }"}},
}};
}  // namespace peri::ops
