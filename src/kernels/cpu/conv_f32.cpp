// Kernel conv_f32: float32 convolution in NHWC with its epilogue, as an implicit product over pointers to pixels, by padded rows
// for a first layer, or depthwise. Weights are packed once for all image sizes.
#include "kernels/core/epilogue_match.hpp"
#include "kernels/cpu/conv/conv.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels {
namespace {
using namespace cpu;  // NOLINT: the raw kernels this file wraps

struct Setup {
  ConvShape shape;
  MatchedEpilogue epilogue;
  int x = -1, w = -1, bias = -1;
  const ir::Value* inline_bias = nullptr;
};

Status read_shape(const Problem& p, Setup* s) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv") return refused("not a convolution");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only").but_found(std::string(dtype_name(n.in(0)->type.dtype)));
  if (n.in(0)->type.rank() != 4) return refused("takes two spatial dimensions only");
  const std::vector<int64_t> x = dims_of(*n.in(0)), w = dims_of(*n.in(1)), y = dims_of(*n.out());
  const std::vector<int64_t> pads = n.ints("pads", {0, 0, 0, 0}), strides = n.ints("strides", {1, 1}), dilations = n.ints("dilations", {1, 1});
  if (pads.size() != 4 || strides.size() != 2 || dilations.size() != 2) return refused("bad attributes");
  ConvShape& c = s->shape;
  c.n = x[0], c.ic = x[1], c.ih = x[2], c.iw = x[3];
  c.oc = w[0], c.kh = w[2], c.kw = w[3];
  c.sh = strides[0], c.sw = strides[1], c.dh = dilations[0], c.dw = dilations[1];
  c.top = pads[0], c.left = pads[1], c.bottom = pads[2], c.right = pads[3];
  c.groups = n.i("group", 1);
  if (const std::string pad = n.s("auto_pad", "NOTSET"); pad != "NOTSET") {
    if (pad == "VALID") c.top = c.left = c.bottom = c.right = 0;
    else {
      auto split = [&](int64_t in, int64_t out, int64_t stride, int64_t kernel, int64_t dilation, int64_t* begin, int64_t* end) {
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
  s->x = input_index(*p.graph, n.in(0));
  s->w = input_index(*p.graph, n.in(1));
  if (s->x < 0 || s->w < 0 || !p.constant[static_cast<size_t>(s->w)]) return refused("its weights are not constant");
  if (n.in(2)) {
    s->bias = input_index(*p.graph, n.in(2));
    if (s->bias < 0) s->inline_bias = n.in(2);
    else if (!p.constant[static_cast<size_t>(s->bias)]) return refused("its bias is not constant");
  }
  return Ok{};
}

Result<Setup> read(const Problem& p) {
  Setup s;
  PERI_TRY(read_shape(p, &s));
  PERI_ASSIGN(s.epilogue, match_epilogue(p, p.anchor(), 1));
  MatchedOp bias;
  bias.op.kind = PostKind::kColAdd;
  bias.needs_data = true;
  bias.input = s.bias;
  if (s.inline_bias)
    for (int64_t k = 0; k < s.inline_bias->constant->numel(); ++k) bias.values.push_back(static_cast<float>(s.inline_bias->constant->f64(k)));
  if (p.anchor().in(2)) s.epilogue.ops.insert(s.epilogue.ops.begin(), std::move(bias));
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Machine& machine) {
  // Residuals are given in the output's layout: match with all four-dimensional activations taken as NHWC.
  ir::Graph g = p.graph->clone();
  for (const auto& v : g.values())
    if (v->type.rank() == 4) v->type.layout = {};
  const Problem plain{&g, p.constant};
  PERI_ASSIGN(Setup s, read(plain));
  if (machine.isas.empty()) return refused("needs AVX2");
  std::vector<Offer> out;
  for (const XForm form : {XForm::kNhwc, XForm::kNchw}) {
    s.shape.x_form = form;
    if (form == XForm::kNchw && (s.shape.ic > 8 || s.shape.groups != 1)) continue;
    if (const std::string why = refuse_conv(s.shape); !why.empty()) {
      if (form == XForm::kNhwc) return refused("%s", why.c_str());
      continue;
    }
    Offer o;
    o.config = form == XForm::kNchw ? "x=nchw" : "x=nhwc";
    o.inputs.resize(g.inputs.size());
    for (size_t k = 0; k < g.inputs.size(); ++k)
      if (!p.constant[k] && g.inputs[k]->type.rank() == 4) o.inputs[k] = ir::nhwc();
    if (form == XForm::kNchw) o.inputs[static_cast<size_t>(s.x)] = {};
    o.outputs = {ir::nhwc()};
    o.in_place = {s.epilogue.residual};
    o.requires_isa = isa_name(*detect_isa());
    out.push_back(std::move(o));
  }
  return out;
}

class ConvInstance final : public Instance {
 public:
  ConvInstance(Setup setup, ConvPlan plan, Packed packed, std::vector<Tensor> constants) : setup_(std::move(setup)), plan_(plan), packed_(std::move(packed)), constants_(std::move(constants)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(plan_.scratch_floats) * sizeof(float); }
  int64_t tasks(int) const override { return plan_.tasks; }
  void run_task(int, int64_t task, const Args& args) const override {
    ConvArgs a;
    a.x = static_cast<const float*>(args.in[static_cast<size_t>(setup_.x)]);
    a.w = static_cast<const Tensor*>(packed_.get())->as<float>().data();
    a.y = static_cast<float*>(args.out[0]);
    a.epilogue = bind_epilogue(setup_.epilogue, constants_, args, plan_.shape.oc);
    cpu::run_task(plan_, a, task, reinterpret_cast<float*>(args.scratch));
  }

 private:
  Setup setup_;
  ConvPlan plan_;
  Packed packed_;
  std::vector<Tensor> constants_;
};

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Setup s, read(p));
  if (config != "x=nhwc" && config != "x=nchw") return invalid("bad configuration").but_found(std::string(config));
  s.shape.x_form = config == "x=nchw" ? XForm::kNchw : XForm::kNhwc;
  if (const std::string why = refuse_conv(s.shape); !why.empty()) return refused("%s", why.c_str());
  const auto isa = detect_isa();
  if (!isa) return refused("needs AVX2");
  const ir::Layout want = s.shape.x_form == XForm::kNchw ? ir::Layout{} : ir::nhwc();
  if (!(p.graph->inputs[static_cast<size_t>(s.x)]->type.layout == want) || !(p.graph->outputs[0]->type.layout == ir::nhwc())) return invalid("the region has other layouts than its configuration says");
  if (!*c.packed) {
    const Tensor& w = c.constants[static_cast<size_t>(s.w)];
    PERI_ASSIGN(Tensor packed, Tensor::zeros(DType::kF32, {packed_conv_floats(s.shape, *isa)}));
    pack_conv_weights(w.as<float>().data(), s.shape, *isa, packed.mutable_as<float>());
    *c.packed = std::make_shared<const Tensor>(std::move(packed));
  }
  std::vector<Tensor> constants(c.constants.begin(), c.constants.end());
  constants[static_cast<size_t>(s.w)] = {};
  const ConvPlan plan = plan_conv(s.shape, *isa);
  return std::unique_ptr<Instance>(std::make_unique<ConvInstance>(std::move(s), plan, *c.packed, std::move(constants)));
}
}  // namespace

extern const Entry conv_f32_entry;
const Entry conv_f32_entry{{
    .name = "conv_f32",
    .version = 1,
    .provider = "peri",
    .takes = "float32 convolution in two dimensions, NHWC, constant weights, with bias, residual and activation",
    .offer = offer,
    .instantiate = instantiate,
}};

}  // namespace peri::kernels
