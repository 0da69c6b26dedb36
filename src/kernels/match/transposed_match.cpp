// Matching of transposed convolutions.
#include "kernels/match/transposed_match.hpp"

#include <algorithm>

#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {

// Pads along an axis without any, on which `full` elements would come out where `wanted` are to: the odd one stands at
// the end for SAME_UPPER only. What is missing is added behind the last product.
void fit_pads(int64_t wanted, int64_t full, bool upper, int64_t* begin, int64_t* end, int64_t* extra) {
  const int64_t total = std::max<int64_t>(full - wanted, 0);
  *begin = upper ? total / 2 : total - total / 2;
  *end = total - *begin;
  *extra += total - (full - wanted);
}

Result<TransposedShape> sizes_of(const ir::Node& n) {
  const std::vector<int64_t> x = dims_of(*n.in(0)), w = dims_of(*n.in(1)), y = dims_of(*n.out());
  const std::vector<int64_t> pads = n.ints("pads", {0, 0, 0, 0}), strides = n.ints("strides", {1, 1});
  const std::vector<int64_t> dilations = n.ints("dilations", {1, 1}), extra = n.ints("output_padding", {0, 0});
  if (pads.size() != 4 || strides.size() != 2 || dilations.size() != 2 || extra.size() != 2)
    return refused("bad attributes");
  TransposedShape c;
  c.n = x[0];
  c.ic = x[1];
  c.ih = x[2];
  c.iw = x[3];
  c.groups = n.i("group", 1);
  c.oc = w[1] * c.groups;
  c.kh = w[2];
  c.kw = w[3];
  c.sh = strides[0];
  c.sw = strides[1];
  c.dh = dilations[0];
  c.dw = dilations[1];
  const bool written = !n.has("output_shape") && n.s("auto_pad", "NOTSET") == "NOTSET";
  c.top = written ? pads[0] : 0;
  c.left = written ? pads[1] : 0;
  c.bottom = written ? pads[2] : 0;
  c.right = written ? pads[3] : 0;
  c.extra_h = extra[0];
  c.extra_w = extra[1];
  if (!written) {  // they follow from the extents at hand
    const bool upper = n.s("auto_pad") == "SAME_UPPER";
    fit_pads(y[2], c.oh(), upper, &c.top, &c.bottom, &c.extra_h);
    fit_pads(y[3], c.ow(), upper, &c.left, &c.right, &c.extra_w);
  }
  if (c.oh() != y[2] || c.ow() != y[3]) return refused("its output size is not the usual one");
  return c;
}

}  // namespace

Result<TransposedShape> match_transposed(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv_transpose") return refused("not a transposed convolution");
  if (n.in(0)->type.dtype != DType::kF32)
    return refused("takes f32 only").but_found(std::string(dtype_name(n.in(0)->type.dtype)));
  if (n.in(0)->type.rank() != 4) return refused("takes two spatial dimensions only");
  PERI_ASSIGN(const TransposedShape c, sizes_of(n));
  const auto constant = [&](int input) { return p.constant[static_cast<size_t>(input)]; };
  const int x = input_index(*p.graph, n.in(0)), w = input_index(*p.graph, n.in(1));
  if (x < 0 || w < 0 || !constant(w)) return refused("its weights are not constant");
  if (constant(x)) return refused("its image is a weight");  // read through Args
  if (n.in(2))
    if (const int bias = input_index(*p.graph, n.in(2)); bias >= 0 && !constant(bias))
      return refused("its bias is not constant");
  return c;
}

}  // namespace peri::kernels
