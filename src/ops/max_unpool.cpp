// MaxUnpool: every element placed at its index in a larger image, zeros elsewhere. Indices refer to the image size
// computed from kernel, strides and pads; with an output_shape that image is the corner of the output, as in the ONNX
// node tests.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/window.hpp"

namespace peri::ops {
namespace {

Result<Shape> image_of(const ir::Node& node, const Shape& x) {
  std::vector<int64_t> kernel = node.ints("kernel_shape");
  if (x.size() < 3 || kernel.size() != x.size() - 2)
    return invalid("kernel_shape does not fit x")
        .expecting("x of [batch, channels, spatial...], one number for each spatial axis")
        .but_found(format("%zu numbers for %s", kernel.size(), shape_text(x).c_str()));
  PERI_ASSIGN(const WindowSpec spec, window_spec(node, std::move(kernel)));
  Shape y = {x[0], x[1]};
  const Window& w = spec.window;
  for (size_t d = 0; d < w.rank(); ++d) {
    Dim extent = (x[d + 2] - 1) * w.stride[d] + w.kernel[d] - w.pad_begin[d] - w.pad_end[d];
    if (extent.is_const() && extent.value() < 1 && !x[d + 2].is_const(0))
      return invalid("the unpooled image is empty").expecting("a size >= 1").but_found(extent.text());
    if (x[d + 2].is_const(0)) extent = Dim(0);
    y.push_back(std::move(extent));
  }
  return y;
}

Status infer(InferContext& c) {
  const Shape& x = c.shape(0);
  PERI_ASSIGN(Shape y, image_of(c.node, x));
  const Shape& i = c.shape(1);
  bool same = i.size() == x.size();
  for (size_t d = 0; same && d < x.size(); ++d) same = !i[d].is_const() || !x[d].is_const() || i[d] == x[d];
  if (!same) return invalid("indices have a wrong shape").expecting(shape_text(x)).but_found(shape_text(i));
  if (c.has(2)) {
    const Shape least = y;
    if (c.rank(2) != 1 || !(c.shape(2)[0] == Dim(static_cast<int64_t>(x.size()))))
      return invalid("output_shape has a wrong length")
          .expecting(std::to_string(x.size()))
          .but_found(shape_text(c.shape(2)));
    PERI_ASSIGN(y, shape_from(c, 2, "unpooled"));
    for (size_t d = 0; d < y.size(); ++d)
      if (y[d].is_const() && least[d].is_const() && y[d].value() < least[d].value())
        return invalid("output_shape is too small").expecting(shape_text(least) + " or more").but_found(shape_text(y));
  }
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor &x = *call.in[0], &indices = *call.in[1];
  RefTensor& y = call.out[0];
  PERI_ASSIGN(const Shape shape, image_of(call.node, Shape(x.dims.begin(), x.dims.end())));
  PERI_ASSIGN(const std::vector<int64_t> image, eval(shape, {}));
  std::vector<int64_t> dims = image;
  if (call.in.size() > 2 && call.in[2]) dims = call.in[2]->i;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] < image[d])
      return invalid("output_shape is too small")
          .expecting(std::to_string(image[d]))
          .but_found(std::to_string(dims[d]));
  if (y.dims != dims) PERI_TRY(resize(y, dims));
  std::fill(y.f.begin(), y.f.end(), 0);
  y.radius.assign(y.f.size(), 0);
  const int64_t most = span_of(image, 0, image.size());
  std::vector<int64_t> at(image.size());
  const std::vector<int64_t> strides = strides_of(dims);
  for (int64_t k = 0; k < x.numel(); ++k) {
    const int64_t place = indices.i[static_cast<size_t>(k)];
    if (place < 0 || place >= most)
      return invalid("an index is out of range")
          .expecting(format("[0, %lld)", static_cast<long long>(most)))
          .but_found(std::to_string(place));
    unravel(place, image, at);
    int64_t to = 0;
    for (size_t d = 0; d < at.size(); ++d) to += at[d] * strides[d];
    copy_element(x, k, y, to);
  }
  return Ok{};
}

std::vector<Dim> index_ends(const ir::Node& node) {
  if (!node.in(0)->type.known()) return {};
  const auto image = image_of(node, *node.in(0)->type.shape);
  return image.ok() ? std::vector<Dim>{product(*image)} : std::vector<Dim>();
}

}  // namespace

extern const Entry max_unpool_entry;
const Entry max_unpool_entry{{
    {.name = "max_unpool",
     .onnx = "MaxUnpool",
     .versions = {9, 11, 22},
     .inputs = {{"x", kFloats},
                {"indices", types({DType::kI64}), false, false, -1, Role::kIndex},
                {"output_shape", types({DType::kI64}), true}},
     .outputs = {{"y"}},
     .attrs = {{"kernel_shape", AttrKind::kInts, true},
               {"pads", AttrKind::kInts, false, "0 each"},
               {"strides", AttrKind::kInts, false, "1 each"}},
     .infer = infer,
     .reference = reference,
     .cost = cost_move,
     .index_ends = index_ends,
     .samples =
         {"graph { input x: f32[1,1,2,2]; const i: i64[1,1,2,2] = [0, 3, 9, 15]; y = max_unpool(x, i) "
          "{kernel_shape=[2,2], strides=[2,2]}; output y }",
          "graph { input x: f32[1,1,2,2]; const i: i64[1,1,2,2] = [5, 7, 13, 15]; const s: i64[4] = [1, 1, 5, 5]; y = "
          "max_unpool(x, i, s) {kernel_shape=[2,2], strides=[2,2]}; output y }",
          "graph { input x: f16[2,1,2]; const i: i64[2,1,2] = [0, 2, 4, 3]; y = max_unpool(x, i) {kernel_shape=[3], "
          "pads=[1,0], strides=[1]}; output y }"}},
}};
}  // namespace peri::ops
