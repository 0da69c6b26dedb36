// Attributes of a convolution.
#include "kernels/cuda/code/conv_shape.hpp"

#include <algorithm>

namespace peri::kernels::cuda {

namespace {
Status read_padding(const ir::Node& n, size_t rank, ConvShape* c) {
  const std::vector<int64_t> pads = n.ints("pads", std::vector<int64_t>(2 * rank, 0));
  const std::string automatic = n.s("auto_pad", "NOTSET");
  if (pads.size() != 2 * rank) return refused("bad attributes");
  for (size_t k = 0; k < rank; ++k) {
    const size_t d = 3 - rank + k;
    if (automatic == "NOTSET") {
      c->pad[d] = pads[k];
    } else if (automatic != "VALID") {
      const int64_t reach = (c->out[d] - 1) * c->stride[d] + c->dilation[d] * (c->kernel[d] - 1) + 1;
      const int64_t total = std::max<int64_t>(0, reach - c->in[d]);
      c->pad[d] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
  }
  return Ok{};
}
}  // namespace

Result<ConvShape> read_conv(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv") return refused("not a convolution");
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != DType::kF32 && v->type.dtype != DType::kF16 && v->type.dtype != DType::kBF16)
      return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(v->type.dtype)));
  return read_conv_of(n, *n.in(0), *n.in(1));
}

Result<ConvShape> read_conv_of(const ir::Node& n, const ir::Value& image, const ir::Value& weights) {
  const std::vector<int64_t> x = dims_of(image), w = dims_of(weights), y = dims_of(*n.out());
  if (x.size() < 3 || x.size() > 5 || w.size() != x.size()) return refused("takes one to three spatial dimensions");
  const size_t rank = x.size() - 2;
  const std::vector<int64_t> ones(rank, 1), strides = n.ints("strides", ones), dilations = n.ints("dilations", ones);
  if (strides.size() != rank || dilations.size() != rank) return refused("bad attributes");
  ConvShape c;
  c.groups = n.i("group", 1);
  c.images = x[0];
  c.channels = w[1];
  if (c.groups < 1 || w[0] % c.groups != 0 || x[1] != c.channels * c.groups) return refused("uneven groups");
  c.outputs = w[0] / c.groups;
  for (size_t k = 0; k < rank; ++k) {
    const size_t d = 3 - rank + k;
    c.in[d] = x[2 + k];
    c.out[d] = y[2 + k];
    c.kernel[d] = w[2 + k];
    c.stride[d] = strides[k];
    c.dilation[d] = dilations[k];
  }
  PERI_TRY(read_padding(n, rank, &c));
  return c;
}

}  // namespace peri::kernels::cuda
