// Col2Im: columns of sliding blocks added back into the image they were taken from; elements covered by no block are 0.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/window.hpp"

namespace peri::ops {
namespace {

// [batch, channels * block, blocks] → [batch, channels, image...].
struct Blocks {
  Window window;
  std::vector<int64_t> image, blocks;  // sizes of the image; number of blocks along each axis
  int64_t taps = 1, count = 1;
};
Result<Blocks> blocks_of(const ir::Node& node, std::vector<int64_t> image, std::vector<int64_t> block) {
  Blocks b;
  if (image.size() != block.size())
    return invalid("image_shape and block_shape differ in length")
        .expecting(std::to_string(image.size()))
        .but_found(std::to_string(block.size()));
  PERI_ASSIGN(const WindowSpec spec, window_spec(node, std::move(block)));
  b.window = spec.window;
  for (size_t d = 0; d < image.size(); ++d) {
    if (image[d] < 1)
      return invalid("image_shape is out of range").expecting(">= 1").but_found(std::to_string(image[d]));
    PERI_ASSIGN(const Dim n, spec.extent(d, Dim(image[d]), false));
    b.blocks.push_back(n.value());
    b.taps *= b.window.kernel[d];
  }
  PERI_TRY(checked_numel(image));
  PERI_ASSIGN(b.count, checked_numel(b.blocks));
  b.image = std::move(image);
  return b;
}

Status infer(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() != 3)
    return invalid("x has a wrong rank").expecting("[batch, channels * block, blocks]").but_found(shape_text(x));
  const std::vector<Dim>*image = c.known(1), *block = c.known(2);
  size_t rank = 0;
  for (size_t port : {size_t{1}, size_t{2}})
    if (c.rank(port) == 1 && c.shape(port)[0].is_const()) rank = static_cast<size_t>(c.shape(port)[0].value());
  if (c.rank(1) != 1 || c.rank(2) != 1 || rank == 0)
    return invalid("image_shape and block_shape must be lists of one length")
        .but_found(shape_text(c.shape(1)) + " and " + shape_text(c.shape(2)));
  Shape y = {x[0]};
  Dim taps(1);
  for (size_t d = 0; block && d < block->size(); ++d) taps = taps * (*block)[d];
  if (block && taps.is_const() && x[1].is_const() && (taps.value() < 1 || x[1].value() % taps.value() != 0))
    return invalid("block_shape does not divide the channels")
        .expecting("a divisor of " + x[1].text())
        .but_found(taps.text());
  y.push_back(block ? floordiv(x[1], taps) : c.fresh("channels"));
  for (size_t d = 0; d < rank; ++d) y.push_back(image && d < image->size() ? (*image)[d] : c.fresh("image"));
  if (const auto i = numbers_of(c, 1), b = numbers_of(c, 2); i && b) {
    PERI_ASSIGN(const Blocks blocks, blocks_of(c.node, *i, *b));
    if (x[2].is_const() && x[2].value() != blocks.count)
      return invalid("x has a wrong number of blocks").expecting(std::to_string(blocks.count)).but_found(x[2].text());
  }
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  PERI_ASSIGN(const Blocks b, blocks_of(call.node, call.in[1]->i, call.in[2]->i));
  if (x.dims[1] % b.taps != 0 || x.dims[2] != b.count)
    return invalid("x does not fit its blocks")
        .expecting(format("[batch, a multiple of %lld, %lld]", static_cast<long long>(b.taps),
                          static_cast<long long>(b.count)));
  std::vector<int64_t> dims = {x.dims[0], x.dims[1] / b.taps};
  dims.insert(dims.end(), b.image.begin(), b.image.end());
  if (y.dims != dims) PERI_TRY(resize(y, dims));
  const int64_t image = span_of(b.image, 0, b.image.size());
  std::vector<double> magnitude(y.f.size(), 0);
  y.radius.assign(y.f.size(), 0);
  std::fill(y.f.begin(), y.f.end(), 0);
  std::fill(y.i.begin(), y.i.end(), 0);
  std::vector<int64_t> at(b.blocks.size());
  for (int64_t plane = 0; plane < dims[0] * dims[1]; ++plane)
    for (int64_t block = 0; block < b.count; ++block) {
      unravel(block, b.blocks, at);
      each_tap(b.window, b.image, at.data(), [&](int64_t offset, int64_t tap) {
        const size_t to = static_cast<size_t>(plane * image + offset);
        const int64_t from = (plane * b.taps + tap) * b.count + block;
        if (y.floating()) {
          y.f[to] += x.f[static_cast<size_t>(from)];
          y.radius[to] += x.r(from);
          magnitude[to] += std::fabs(x.f[static_cast<size_t>(from)]);
        } else {
          y.i[to] = wrap(y.dtype, static_cast<int64_t>(static_cast<uint64_t>(y.i[to]) +
                                                       static_cast<uint64_t>(x.i[static_cast<size_t>(from)])));
        }
      });
    }
  for (size_t k = 0; k < y.f.size(); ++k)
    y.radius[k] = std::isfinite(y.f[k]) ? y.radius[k] + sum_radius(call.u, b.taps, magnitude[k]) : 0;
  return Ok{};
}

}  // namespace

extern const Entry col2im_entry;
const Entry col2im_entry{{
    {.name = "col2im",
     .onnx = "Col2Im",
     .versions = {18},
     .inputs = {{"x", kNumbers}, {"image_shape", types({DType::kI64})}, {"block_shape", types({DType::kI64})}},
     .outputs = {{"y"}},
     .attrs = {{"dilations", AttrKind::kInts, false, "1 each"},
               {"pads", AttrKind::kInts, false, "0 each"},
               {"strides", AttrKind::kInts, false, "1 each"}},
     .infer = infer,
     .reference = reference,
     .cost = cost_move,
     .samples =
         {"graph { input x: f32[1,12,9]; const i: i64[2] = [4, 4]; const b: i64[2] = [2, 2]; y = col2im(x, i, b); "
          "output y }",
          "graph { input x: f32[2,6,4]; const i: i64[2] = [4, 5]; const b: i64[2] = [3, 2]; y = col2im(x, i, b) "
          "{dilations=[1,2], pads=[1,0,0,1], strides=[2,2]}; output y }",
          "graph { input x: i32[1,3,4]; const i: i64[1] = [6]; const b: i64[1] = [3]; y = col2im(x, i, b); output y }",
          "graph { input x: f16[1,8,8]; const i: i64[3] = [3, 3, 3]; const b: i64[3] = [2, 2, 2]; y = col2im(x, i, b); "
          "output y }"}},
}};
}  // namespace peri::ops
