// Patterns of a squeeze-and-excite block.
#include "kernels/cuda/code/squeeze_shape.hpp"

#include "kernels/cuda/code/dims.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::cuda {

Result<ConvShape> read_one_pixel(const Problem& p) {
  PERI_ASSIGN(const ConvShape c, read_conv(p));
  const bool alone = c.groups == 1 && c.pixels() == 1 && c.taps() == 1 && c.in[0] * c.in[1] * c.in[2] == 1;
  if (!alone) return refused("not a pointwise convolution of one pixel");
  for (const int64_t pad : c.pad)
    if (pad != 0) return refused("not a pointwise convolution of one pixel");
  const int w = input_index(*p.graph, p.anchor().in(1));
  if (w < 0 || !p.constant[static_cast<size_t>(w)]) return refused("weights that are computed");
  return c;
}

Result<std::string> behind_product(const ir::Graph& g) {
  if (g.nodes.size() == 1) return std::string("v");
  const ir::Value* const sum = g.nodes[0]->out();
  const ir::Node& n = *g.nodes[1];
  if (n.in(0) != sum) return refused("%s behind a product", n.op.c_str());
  if (g.nodes.size() == 2 && n.op == "relu") return std::string("peri_relu(v)");
  if (g.nodes.size() == 2 && n.op == "hard_swish") return std::string("peri_hard_swish(v)");
  if (g.nodes.size() == 2 && n.op == "sigmoid") return std::string("peri_sigmoid(v)");
  if (g.nodes.size() == 2 && n.op == "swish" && n.f("alpha", 1.0) == 1.0) return std::string("peri_silu(v)");
  if (g.nodes.size() == 2 && n.op == "hard_sigmoid")
    return format("peri_hard_sigmoid(v, (float)%.9g, (float)%.9g)", n.f("alpha", 0.2), n.f("beta", 0.5));
  if (g.nodes.size() == 3 && n.op == "sigmoid" && g.nodes[2]->op == "mul") {
    const ir::Node& m = *g.nodes[2];
    if ((m.in(0) == sum && m.in(1) == n.out()) || (m.in(1) == sum && m.in(0) == n.out()))
      return std::string("peri_silu(v)");
  }
  return refused("%s behind a product", n.op.c_str());
}

Result<std::string> bias_of(const Problem& p, const ir::Node& n, const char* name, Signature* s) {
  std::string out = std::string("#define ") + name + "(K) ";
  if (!n.in(2)) return out + "0.0f\n";
  PERI_ASSIGN(const std::string from, s->value(p, *n.in(2)));
  return out + loaded(n.in(2)->type.dtype, from + "[K]") + "\n";
}

Result<SqueezeParts> parted_squeeze(const ir::Graph& g, size_t begin) {
  SqueezeParts out;
  for (size_t k = begin + 1; k < g.nodes.size(); ++k)
    if (g.nodes[k]->op == "conv") {
      if (out.second) return refused("more than two convolutions");
      out.second = k;
    }
  if (g.nodes.size() <= begin || g.nodes[begin]->op != "conv" || !out.second || g.outputs.size() != 1)
    return refused("not two convolutions");
  out.middle = g.nodes[out.second]->in(0);
  if (!out.middle->producer || out.middle->users.size() != 1 || out.middle == g.outputs[0])
    return refused("the second convolution does not alone read the first");
  out.end = g.nodes.size();
  out.result = g.outputs[0];
  const ir::Node& last = *g.nodes.back();
  if (last.op != "mul" || last.outputs[0] != out.result) return out;
  for (const size_t k : {0, 1})
    if (const int at = input_index(g, last.in(k)); at >= 0 && last.in(1 - k)->users.size() == 1) {
      const std::vector<int64_t> image = dims_of(*last.inputs[k]), factor = dims_of(*last.inputs[1 - k]);
      const bool fits = image.size() == factor.size() && image.size() >= 3 && image[0] == factor[0] &&
                        image[1] == factor[1] && elements_of(std::span(factor).subspan(2)) == 1 &&
                        dims_of(*out.result) == image;
      if (!fits) continue;
      --out.end;
      out.result = last.in(1 - k);
      out.image = last.in(k);
      break;
    }
  return out;
}

}  // namespace peri::kernels::cuda
