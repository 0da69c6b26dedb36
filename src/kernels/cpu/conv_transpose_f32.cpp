// Kernel conv_transpose_f32: float32 transposed convolution in NHWC with its epilogue, by stride phases. Weights are
// packed once for all image sizes.
#include <algorithm>

#include "kernels/cpu/conv/instance.hpp"
#include "kernels/cpu/conv/transposed.hpp"
#include "kernels/entry.hpp"
#include "kernels/match/conv_match.hpp"

namespace peri::kernels {
namespace {
using cpu::best_isa;
using cpu::isa_name;
using cpu::pack_transposed_weights;
using cpu::packed_transposed_floats;
using cpu::plan_transposed;
using cpu::PostKind;
using cpu::TransposedPlan;
using cpu::TransposedShape;

struct Setup {
  TransposedShape shape;
  MatchedEpilogue epilogue;  // the bias is its first step
  int x = -1, w = -1;
};

// Pads along an axis without any, on which `full` elements would come out where `wanted` are to: the odd one stands at
// the end for SAME_UPPER only. What is missing is added behind the last product.
void fit_pads(int64_t wanted, int64_t full, bool upper, int64_t* begin, int64_t* end, int64_t* extra) {
  const int64_t total = std::max<int64_t>(full - wanted, 0);
  *begin = upper ? total / 2 : total - total / 2;
  *end = total - *begin;
  *extra += total - (full - wanted);
}

Status read_shape(const Problem& p, Setup* s) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv_transpose") return refused("not a transposed convolution");
  if (n.in(0)->type.dtype != DType::kF32)
    return refused("takes f32 only").but_found(std::string(dtype_name(n.in(0)->type.dtype)));
  if (n.in(0)->type.rank() != 4) return refused("takes two spatial dimensions only");
  const std::vector<int64_t> x = dims_of(*n.in(0)), w = dims_of(*n.in(1)), y = dims_of(*n.out());
  const std::vector<int64_t> pads = n.ints("pads", {0, 0, 0, 0}), strides = n.ints("strides", {1, 1});
  const std::vector<int64_t> dilations = n.ints("dilations", {1, 1}), extra = n.ints("output_padding", {0, 0});
  if (pads.size() != 4 || strides.size() != 2 || dilations.size() != 2 || extra.size() != 2)
    return refused("bad attributes");
  TransposedShape& c = s->shape;
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
  if (const std::string why = refuse_transposed(c); !why.empty()) return refused("%s", why.c_str());
  if (c.oh() != y[2] || c.ow() != y[3]) return refused("its output size is not the usual one");
  s->x = input_index(*p.graph, n.in(0));
  s->w = input_index(*p.graph, n.in(1));
  if (s->x < 0 || s->w < 0 || !p.constant[static_cast<size_t>(s->w)]) return refused("its weights are not constant");
  if (p.constant[static_cast<size_t>(s->x)]) return refused("its image is a weight");  // read through Args
  return Ok{};
}

Result<Setup> read(const Problem& p) {
  Setup s;
  PERI_TRY(read_shape(p, &s));
  PERI_ASSIGN(s.epilogue, match_epilogue(p, p.anchor(), 1));
  const ir::Value* bias = p.anchor().in(2);
  if (bias == nullptr) return s;
  MatchedOp op;
  op.op.kind = PostKind::kColAdd;
  op.needs_data = true;
  op.input = input_index(*p.graph, bias);
  if (op.input < 0) {
    for (int64_t k = 0; k < bias->constant->numel(); ++k)
      op.values.push_back(static_cast<float>(bias->constant->f64(k)));
  } else if (!p.constant[static_cast<size_t>(op.input)]) {
    return refused("its bias is not constant");
  }
  s.epilogue.ops.insert(s.epilogue.ops.begin(), std::move(op));
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  ir::Graph g = p.graph->clone();  // a residual is given in the output's layout
  for (const auto& v : g.values())
    if (v->type.rank() == 4) v->type.layout = {};
  PERI_ASSIGN(const Setup s, read(Problem{&g, p.constant}));
  PERI_ASSIGN(const auto isa, best_isa(target));
  Offer o;
  ask_for_nhwc(p, &o);
  o.in_place = {shared_residual(p, s.epilogue)};
  o.requires_isa = isa_name(isa);
  return std::vector<Offer>{std::move(o)};
}

struct Planned {
  Setup setup;
  TransposedPlan plan;
};
Result<Planned> planned(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(Setup s, read(p));
  if (!config.empty()) return invalid("bad configuration").but_found(std::string(config));
  PERI_ASSIGN(const auto isa, best_isa(target));
  if (!(p.graph->inputs[static_cast<size_t>(s.x)]->type.layout == ir::nhwc()) ||
      !(p.graph->outputs[0]->type.layout == ir::nhwc())) {
    return invalid("the region has other layouts than its configuration says");
  }
  const TransposedPlan plan = plan_transposed(s.shape, isa);
  return Planned{std::move(s), plan};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Planned made, planned(p, config, target));
  return conv_needs(made.plan);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Planned made, planned(p, config, *c.target));
  Setup& s = made.setup;
  const auto isa = made.plan.isa;
  PERI_TRY(pack_once(c, "", packed_transposed_floats(s.shape, isa), [&](float* to) {
    pack_transposed_weights(c.constants[static_cast<size_t>(s.w)].as<float>().data(), s.shape, isa, to);
  }));
  const int taken = shared_residual(p, s.epilogue);
  return conv_instance(std::move(s), made.plan, c, taken);
}

}  // namespace

extern const Entry conv_transpose_f32_entry;
const Entry conv_transpose_f32_entry{{
    .name = "conv_transpose_f32",
    .version = 1,
    .provider = "peri",
    .takes =
        "float32 transposed convolution in two dimensions, NHWC, constant weights, with bias, residual, activation",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    .takes_constants = true,
}};

}  // namespace peri::kernels
