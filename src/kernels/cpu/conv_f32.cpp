// Kernel conv_f32: float32 convolution in NHWC with its epilogue, as an implicit product over pointers to pixels, by
// padded rows for a first layer, or depthwise. Weights are packed once for all image sizes.
#include "kernels/cpu/conv/conv.hpp"
#include "kernels/cpu/conv/instance.hpp"
#include "kernels/entry.hpp"
#include "kernels/match/conv_match.hpp"

namespace peri::kernels {
extern const Entry conv_f32_entry;

namespace {
using cpu::best_isa;
using cpu::ConvPlan;
using cpu::isa_name;
using cpu::pack_conv_weights;
using cpu::packed_conv_floats;
using cpu::plan_conv;
using cpu::refuse_conv;
using cpu::XForm;

// The input whose memory the result may take; -1: none. Sums in several blocks of depth stand in the result meanwhile.
int taken_input(const Problem& p, const MatchedConv& s, const ConvPlan& plan) {
  const bool one_pass = plan.kind != cpu::ConvKind::kPointers || plan.taps_at_once == s.shape.kh * s.shape.kw;
  return one_pass ? shared_residual(p, s.epilogue) : -1;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(MatchedConv s, match_conv_any_layout(p));
  PERI_ASSIGN(const auto isa, best_isa(target));
  std::vector<Offer> out;
  for (const XForm form : {XForm::kNhwc, XForm::kNchw}) {
    s.shape.x_form = form;
    if (form == XForm::kNchw && (s.shape.ic > 8 || s.shape.groups != 1)) continue;
    // What the epilogue reads in full lies as the result does: the image itself can do so in one of its forms only.
    if (form == XForm::kNchw && p.anchor().in(0)->users.size() > 1) continue;
    if (const std::string why = refuse_conv(s.shape); !why.empty()) {
      if (form == XForm::kNhwc) return refused("%s", why.c_str());
      continue;
    }
    Offer o;
    o.config = form == XForm::kNchw ? "x=nchw" : "x=nhwc";
    ask_for_nhwc(p, &o);
    if (form == XForm::kNchw) o.inputs[static_cast<size_t>(s.x)] = {};
    o.in_place = {taken_input(p, s, plan_conv(s.shape, isa))};
    o.requires_isa = isa_name(isa);
    out.push_back(std::move(o));
  }
  return out;
}

struct Planned {
  MatchedConv conv;
  ConvPlan plan;
};
Result<Planned> planned(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(MatchedConv s, match_conv(p));
  const Kernel& kernel = conv_f32_entry.kernel;
  const std::string form = derived_config(kernel, config);
  if (form != "x=nhwc" && form != "x=nchw") return invalid("bad configuration").but_found(std::string(config));
  s.shape.x_form = form == "x=nchw" ? XForm::kNchw : XForm::kNhwc;
  cpu::ConvCut cut;
  PERI_ASSIGN(cut.pixels, setting(kernel, config, "pixels"));
  PERI_ASSIGN(cut.lines, setting(kernel, config, "lines"));
  PERI_ASSIGN(cut.panels, setting(kernel, config, "panels"));
  if (const std::string why = refuse_conv(s.shape); !why.empty()) return refused("%s", why.c_str());
  PERI_ASSIGN(const auto isa, best_isa(target));
  const ir::Layout want = s.shape.x_form == XForm::kNchw ? ir::Layout{} : ir::nhwc();
  if (!(p.graph->inputs[static_cast<size_t>(s.x)]->type.layout == want) ||
      !(p.graph->outputs[0]->type.layout == ir::nhwc()))
    return invalid("the region has other layouts than its configuration says");
  const ConvPlan plan = plan_conv(s.shape, isa, cut, target.threads);
  return Planned{std::move(s), plan};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Planned made, planned(p, config, target));
  return conv_needs(made.plan);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Planned made, planned(p, config, *c.target));
  MatchedConv& s = made.conv;
  const auto isa = made.plan.isa;
  PERI_TRY(pack_once(c, "", packed_conv_floats(s.shape, isa), [&](float* to) {
    pack_conv_weights(c.constants[static_cast<size_t>(s.w)].as<float>().data(), s.shape, isa, to);
  }));
  const int taken = taken_input(p, s, made.plan);
  return conv_instance(std::move(s), made.plan, c, taken);
}
}  // namespace

const Entry conv_f32_entry{{
    .name = "conv_f32",
    .version = 1,
    .provider = "peri",
    .takes = "float32 convolution in two dimensions, NHWC, constant weights, with bias, residual and activation",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    .tunables = {{"panels", "panels of output channels that a task computes, but depthwise", {1, 2, 4, 8}},
                 {"lines", "lines of the image that a task computes, depthwise and in a first layer", {1, 2, 4}},
                 {"pixels", "pixels that a task computes, otherwise", {64, 32, 16}}},
    .takes_constants = true,
}};

}  // namespace peri::kernels
