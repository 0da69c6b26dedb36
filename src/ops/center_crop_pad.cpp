// CenterCropPad: each axis cropped or zero-padded at both ends to the given size. An odd element is cropped from the
// end, and an odd zero is added at the end.
#include <algorithm>
#include <numeric>

#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {

Result<std::vector<int64_t>> axes_of(const ir::Node& node, size_t rank) {
  std::vector<int64_t> axes = node.ints("axes");
  if (!node.has("axes")) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  PERI_TRY(normalize_axes(axes, rank));  // refuses repeated ones
  for (int64_t& a : axes) a = a < 0 ? a + static_cast<int64_t>(rank) : a;
  return axes;
}

Status infer(InferContext& c) {
  Shape y = c.shape(0);
  PERI_ASSIGN(const std::vector<int64_t> axes, axes_of(c.node, y.size()));
  const Shape& s = c.shape(1);
  if (s.size() != 1 || (s[0].is_const() && !s[0].is_const(static_cast<int64_t>(axes.size()))))
    return invalid("shape has a wrong number of elements")
        .expecting(format("[%zu], one for each axis", axes.size()))
        .but_found(shape_text(s));
  const std::vector<Dim>* sizes = c.known(1);
  for (size_t k = 0; k < axes.size(); ++k) {
    if (sizes && (*sizes)[k].is_const() && (*sizes)[k].value() < 0)
      return invalid("a size is negative").expecting(">= 0").but_found((*sizes)[k].text());
    y[static_cast<size_t>(axes[k])] = sizes ? (*sizes)[k] : c.fresh("cropped");
  }
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

// Flat input position under each output position, -1 for padding.
struct Window {
  std::vector<int64_t> in, out, strides;
  Window(std::vector<int64_t> from, std::vector<int64_t> to) : in(std::move(from)), out(std::move(to)) {
    strides = strides_of(in);
  }
  int64_t operator()(int64_t p) const {
    int64_t at = 0;
    for (size_t d = out.size(); d-- > 0;) {
      // Half of what is too much is cut in front, half of what is missing is put there; both round down.
      const int64_t o = p % out[d], i = in[d] >= out[d] ? o + (in[d] - out[d]) / 2 : o - (out[d] - in[d]) / 2;
      if (i < 0 || i >= in[d]) return -1;
      at += i * strides[d];
      p /= out[d];
    }
    return at;
  }
};

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  PERI_ASSIGN(const std::vector<int64_t> axes, axes_of(call.node, x.dims.size()));
  std::vector<int64_t> dims = x.dims;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (call.in[1]->i[k] < 0)
      return invalid("a size is negative").expecting(">= 0").but_found(std::to_string(call.in[1]->i[k]));
    dims[static_cast<size_t>(axes[k])] = call.in[1]->i[k];
  }
  if (call.out[0].dims != dims) PERI_TRY(resize(call.out[0], dims));
  const Window window(x.dims, dims);
  const RefTensor zero = make_ref(x.dtype, {});
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), at = window(p);
    copy_element(at < 0 ? zero : x, std::max<int64_t>(at, 0), call.out[0], p);
  }
  return Ok{};
}

bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  const Window window(concrete(*node.in(0)), concrete(*node.out()));
  needed->clear();
  for (int64_t p : positions)
    if (const int64_t at = window(p); at >= 0) needed->push_back(at);
  sort_unique(needed);
  return true;
}

}  // namespace

extern const Entry center_crop_pad_entry;
const Entry center_crop_pad_entry{{
    {.name = "center_crop_pad",
     .onnx = "CenterCropPad",
     .versions = {18},
     .inputs = {{"x", kMovable}, {"shape", kIndex}},
     .outputs = {{"y"}},
     .attrs = {{"axes", AttrKind::kInts, false, "all"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .samples =
         {"graph { input x: f32[5,8]; const s: i64[2] = [8, 5]; y = center_crop_pad(x, s); output y }",
          "graph { input x: i32[2,7,4]; const s: i64[2] = [3, 9]; y = center_crop_pad(x, s) {axes=[-1,1]}; output y }",
          "graph { input x: f32[6]; const s: i32[1] = [0]; y = center_crop_pad(x, s); output y }",
          "graph { input x: f16[0,2]; const s: i64[1] = [3]; y = center_crop_pad(x, s) {axes=[0]}; output y }"}},
}};
}  // namespace peri::ops
