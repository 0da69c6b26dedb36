// Pad: constant, reflect, edge and wrap; negative pads crop first, and the rest is padded.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/reference/unary.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {
struct Side {
  int64_t before = 0, after = 0;
};

// Begin and end by axis from lists in the order of the definition; T is int64_t or Dim.
template <class T>
Status spread(const std::vector<T>& pads, const std::vector<int64_t>& axes, size_t rank, std::vector<T>* before,
              std::vector<T>* after) {
  if (pads.size() != 2 * axes.size())
    return invalid("pad needs a begin and an end for each axis")
        .expecting(std::to_string(2 * axes.size()))
        .but_found(std::to_string(pads.size()));
  before->assign(rank, T(0));
  after->assign(rank, T(0));
  for (size_t k = 0; k < axes.size(); ++k) {
    PERI_ASSIGN(const int64_t axis, normalize_axis(axes[k], rank));
    (*before)[static_cast<size_t>(axis)] = pads[k];
    (*after)[static_cast<size_t>(axis)] = pads[k + axes.size()];
  }
  return Ok{};
}
std::vector<int64_t> every_axis(size_t rank) {
  std::vector<int64_t> out;
  for (size_t k = 0; k < rank; ++k) out.push_back(static_cast<int64_t>(k));
  return out;
}

Status infer(InferContext& c) {
  const std::string mode = c.node.s("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return invalid("pad has an unknown mode").expecting("constant, reflect, edge or wrap").but_found(mode);
  std::vector<int64_t> axes = every_axis(c.rank(0));
  if (c.has(3)) {
    const std::optional<std::vector<int64_t>> known = numbers_of(c, 3);
    if (!known) {  // which axes are padded is known only when the model runs
      c.set(0, c.dtype(0), fresh_shape(c, c.rank(0), "padded"));
      return Ok{};
    }
    axes = *known;
  }
  Shape out = c.shape(0);
  if (const std::vector<Dim>* pads = c.known(1)) {
    std::vector<Dim> before, after;
    PERI_TRY(spread(*pads, axes, out.size(), &before, &after));
    for (size_t k = 0; k < out.size(); ++k) {
      const bool fills = before[k].is_const() && after[k].is_const() && (before[k].value() > 0 || after[k].value() > 0);
      if (mode != "constant" && fills && out[k].is_const(0))
        return invalid("pad of an empty axis has nothing to repeat");
      out[k] = out[k] + before[k] + after[k];
    }
  } else {
    for (int64_t axis : axes) {
      PERI_ASSIGN(const int64_t a, normalize_axis(axis, out.size()));
      out[static_cast<size_t>(a)] = c.fresh("padded");
    }
  }
  c.set(0, c.dtype(0), std::move(out));
  return Ok{};
}

// Index in an axis of `length` for output index i, or -1: the constant.
int64_t source(int64_t i, int64_t length, Side side, const std::string& mode) {
  const int64_t low = std::max<int64_t>(0, -side.before), high = length - std::max<int64_t>(0, -side.after),
                kept = high - low;
  const int64_t at = i - std::max<int64_t>(0, side.before);  // in what is left after cutting
  if (at >= 0 && at < kept) return low + at;
  if (mode == "constant" || kept <= 0) return -1;
  if (mode == "edge") return at < 0 ? low : high - 1;
  if (mode == "wrap") return low + ((at % kept) + kept) % kept;
  const int64_t period = std::max<int64_t>(1, 2 * (kept - 1)), m = ((at % period) + period) % period;
  return low + (m < kept ? m : period - m);
}

struct Padding {
  std::vector<int64_t> in, out, strides;
  std::vector<Side> sides;
  std::string mode;
  // Flat input position under flat output position p, or -1.
  int64_t operator()(int64_t p) const {
    int64_t at = 0;
    for (size_t k = out.size(); k-- > 0;) {
      const int64_t i = source(p % out[k], in[k], sides[k], mode);
      if (i < 0) return -1;
      at += i * strides[k];
      p /= out[k];
    }
    return at;
  }
};
Result<Padding> padding_of(const ir::Node& node, std::vector<int64_t> in, std::vector<int64_t> out,
                           const std::vector<int64_t>& pads, const std::vector<int64_t>* axes) {
  std::vector<int64_t> before, after;
  PERI_TRY(spread(pads, axes ? *axes : every_axis(in.size()), in.size(), &before, &after));
  Padding p{std::move(in), std::move(out), {}, {}, node.s("mode", "constant")};
  p.strides = strides_of(p.in);
  for (size_t k = 0; k < before.size(); ++k) p.sides.push_back({before[k], after[k]});
  return p;
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  const RefTensor* fill = call.in.size() > 2 ? call.in[2] : nullptr;
  const RefTensor zero = make_ref(x.dtype, {});
  const bool axes = call.in.size() > 3 && call.in[3];
  PERI_ASSIGN(const Padding padding,
              padding_of(call.node, x.dims, y.dims, call.in[1]->i, axes ? &call.in[3]->i : nullptr));
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), at = padding(p);
    if (at >= 0)
      copy_element(x, at, y, p);
    else
      copy_element(fill ? *fill : zero, 0, y, p);
  }
  return Ok{};
}
bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const auto pads = known_ints(node.in(1)), axes = known_ints(node.in(3));
  if (port != 0 || !pads || (node.in(3) && !axes)) return false;
  auto padding = padding_of(node, concrete(*node.in(0)), concrete(*node.out()), *pads, axes ? &*axes : nullptr);
  if (!padding.ok()) return false;
  needed->clear();
  for (int64_t p : positions)
    if (const int64_t at = (*padding)(p); at >= 0) needed->push_back(at);
  sort_unique(needed);
  return true;
}

Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  if (opset >= 11) return Ok{};
  if (node.f("value", 0) == 0) node.attrs.erase("value");
  PERI_TRY(ints_to_input(graph, node, "pads", 1));
  return float_to_input(graph, node, "value", 2);
}
Cost cost(const ir::Node& node) {
  const double bytes = dtype_bits(node.out()->type.dtype) / 8.0;
  return {0, std::min(numel_of(node.in(0)), numel_of(node.out())) * bytes, numel_of(node.out()) * bytes};
}
}  // namespace

extern const Entry pad_entry;
const Entry pad_entry{{
    {.name = "pad",
     .onnx = "Pad",
     .versions = {2, 11, 13, 18, 19, 21, 23, 24, 25},
     .inputs = {{"x", kMovable},
                {"pads", types({DType::kI64})},
                {"constant_value", kMovable, true, false, 0},
                {"axes", kIndex, true}},
     .outputs = {{"y"}},
     .attrs = {{"mode", AttrKind::kString, false, "constant"}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .samples =
         {"graph { input x: f32[2,3]; const p: i64[4] = [1, 0, 0, 2]; y = pad(x, p); output y }",
          "graph { input x: f32[2,3]; const p: i64[2] = [2, 1]; const v: f32[] = [1.5]; const a: i64[1] = [-1]; y = "
          "pad(x, p, v, a); output y }",
          "graph { input x: f32[3,4]; const p: i64[4] = [2, 1, 1, 3]; y = pad(x, p) {mode=\"reflect\"}; output y }",
          "graph { input x: i32[2,3]; const p: i64[4] = [1, 2, 2, 1]; y = pad(x, p) {mode=\"edge\"}; output y }",
          "graph { input x: f16[2,3]; const p: i64[4] = [3, 1, 0, 4]; y = pad(x, p) {mode=\"wrap\"}; output y }",
          "graph { input x: f32[5]; const p: i64[2] = [-2, 3]; y = pad(x, p) {mode=\"reflect\"}; output y }",
          "graph { input x: f32[5]; const p: i64[2] = [-2, -1]; y = pad(x, p); output y }",
          "graph { input x: f32[0]; const p: i64[2] = [1, 2]; y = pad(x, p); output y }"}},
}};
}  // namespace peri::ops
