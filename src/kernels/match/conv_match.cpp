// Matching of convolutions.
#include "kernels/match/conv_match.hpp"

#include <algorithm>

namespace peri::kernels {

Result<ConvShape> conv_sizes(const ir::Node& n, const ir::Value& image, const ir::Value& weights) {
  if (image.type.rank() != 4) return refused("takes two spatial dimensions only");
  const std::vector<int64_t> x = dims_of(image), w = dims_of(weights), y = dims_of(*n.out());
  const std::vector<int64_t> pads = n.ints("pads", {0, 0, 0, 0}), strides = n.ints("strides", {1, 1}),
                             dilations = n.ints("dilations", {1, 1});
  if (pads.size() != 4 || strides.size() != 2 || dilations.size() != 2) return refused("bad attributes");
  ConvShape c;
  c.n = x[0];
  c.ic = x[1];
  c.ih = x[2];
  c.iw = x[3];
  c.oc = w[0];
  c.kh = w[2];
  c.kw = w[3];
  c.sh = strides[0];
  c.sw = strides[1];
  c.dh = dilations[0];
  c.dw = dilations[1];
  c.top = pads[0];
  c.left = pads[1];
  c.bottom = pads[2];
  c.right = pads[3];
  c.groups = n.i("group", 1);
  if (const std::string pad = n.s("auto_pad", "NOTSET"); pad != "NOTSET") {
    if (pad == "VALID")
      c.top = c.left = c.bottom = c.right = 0;
    else {
      auto split = [&](int64_t in, int64_t out, int64_t stride, int64_t kernel, int64_t dilation, int64_t* begin,
                       int64_t* end) {
        const int64_t total = std::max<int64_t>(0, (out - 1) * stride + dilation * (kernel - 1) + 1 - in);
        *begin = pad == "SAME_UPPER" ? total / 2 : total - total / 2;
        *end = total - *begin;
      };
      split(c.ih, y[2], c.sh, c.kh, c.dh, &c.top, &c.bottom);
      split(c.iw, y[3], c.sw, c.kw, c.dw, &c.left, &c.right);
    }
  }
  if (c.n * c.ic * c.ih * c.iw * c.oc == 0) return refused("an empty tensor");
  if (c.oh() != y[2] || c.ow() != y[3]) return refused("its output size is not the usual one");
  return c;
}

Result<MatchedConv> read_conv(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv") return refused("not a convolution");
  MatchedConv s;
  PERI_ASSIGN(s.shape, conv_sizes(n, *n.in(0), *n.in(1)));
  s.x = input_index(*p.graph, n.in(0));
  s.w = input_index(*p.graph, n.in(1));
  if (s.x < 0 || s.w < 0 || !p.constant[static_cast<size_t>(s.w)]) return refused("its weights are not constant");
  if (n.in(2)) {
    s.bias = input_index(*p.graph, n.in(2));
    if (s.bias < 0)
      s.inline_bias = n.in(2);
    else if (!p.constant[static_cast<size_t>(s.bias)])
      return refused("its bias is not constant");
  }
  return s;
}

Result<MatchedConv> match_conv(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op == "conv" && n.in(0)->type.dtype != DType::kF32)
    return refused("takes f32 only").but_found(std::string(dtype_name(n.in(0)->type.dtype)));
  PERI_ASSIGN(MatchedConv s, read_conv(p));
  if (p.constant[static_cast<size_t>(s.x)]) return refused("its image is a weight");  // read through Args
  PERI_ASSIGN(s.epilogue, match_epilogue(p, p.anchor(), 1));
  MatchedOp bias;
  bias.op.kind = PostKind::kColAdd;
  bias.needs_data = true;
  bias.input = s.bias;
  if (s.inline_bias)
    for (int64_t k = 0; k < s.inline_bias->constant->numel(); ++k)
      bias.values.push_back(static_cast<float>(s.inline_bias->constant->f64(k)));
  if (p.anchor().in(2)) s.epilogue.ops.insert(s.epilogue.ops.begin(), std::move(bias));
  return s;
}

Result<MatchedConv> match_conv_any_layout(const Problem& p) {
  ir::Graph g = p.graph->clone();
  for (const auto& v : g.values())
    if (v->type.rank() == 4) v->type.layout = {};
  PERI_ASSIGN(MatchedConv s, match_conv(Problem{&g, p.constant}));
  s.inline_bias = nullptr;  // it stood in the copy; its values are in the epilogue
  return s;
}

void ask_for_nhwc(const Problem& p, Offer* o) {
  const auto& inputs = p.graph->inputs;
  o->inputs.resize(inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k)
    if (!p.constant[k] && inputs[k]->type.rank() == 4) o->inputs[k] = ir::nhwc();
  o->outputs = {ir::nhwc()};
}

}  // namespace peri::kernels
