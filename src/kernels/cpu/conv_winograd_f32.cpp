// Kernel conv_winograd_f32: 3x3 convolution at stride 1 with its epilogue by Winograd's F(2x2) and F(4x4), NHWC. Fewer
// multiplications, but weights of 1.8 and 4 times the size: which tile is faster depends on image and cache, so both
// are offered.
#include "kernels/cpu/conv/instance.hpp"
#include "kernels/cpu/conv/winograd.hpp"
#include "kernels/entry.hpp"
#include "kernels/match/conv_match.hpp"

namespace peri::kernels {
extern const Entry conv_winograd_f32_entry;

namespace {
using cpu::best_isa;
using cpu::isa_name;
using cpu::pack_winograd_weights;
using cpu::packed_winograd_floats;
using cpu::plan_winograd;
using cpu::refuse_winograd;
using cpu::WinogradPlan;

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(MatchedConv s, match_conv_any_layout(p));
  PERI_ASSIGN(const auto isa, best_isa(target));
  std::vector<Offer> out;
  for (const int64_t m : {4, 2}) {
    if (const std::string why = refuse_winograd(s.shape, m); !why.empty()) return refused("%s", why.c_str());
    // A tile's transforms add the error of all its pixels to an output that may have few taps (a corner): with few
    // channels that exceeds the bound of a direct sum (observed at 5 channels with 4 outputs, 2 in a million elements).
    if (s.shape.ic < (m == 4 ? 16 : 4)) continue;
    // Fewer outputs than this along an axis and the transforms of the padding cost more than is saved.
    if (s.shape.oh() < m || s.shape.ow() < m) continue;
    Offer o;
    o.config = m == 4 ? "m=4" : "m=2";
    ask_for_nhwc(p, &o);
    o.in_place = {shared_residual(p, s.epilogue)};
    o.requires_isa = isa_name(isa);
    const WinogradPlan plan = plan_winograd(s.shape, m, isa);
    o.flops =
        2.0 * static_cast<double>(plan.tiles() * plan.frequencies()) * static_cast<double>(s.shape.ic * s.shape.oc);
    out.push_back(std::move(o));
  }
  if (out.empty()) return refused("the image is smaller than a tile, or of few channels");
  return out;
}

struct Planned {
  MatchedConv conv;
  WinogradPlan plan;
  int64_t m;  // of a tile's results
};
Result<Planned> planned(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(MatchedConv s, match_conv(p));
  const std::string tile = derived_config(conv_winograd_f32_entry.kernel, config);
  if (tile != "m=2" && tile != "m=4") return invalid("bad configuration").but_found(std::string(config));
  const int64_t m = tile == "m=4" ? 4 : 2;
  PERI_ASSIGN(const int64_t panels, setting(conv_winograd_f32_entry.kernel, config, "panels"));
  if (const std::string why = refuse_winograd(s.shape, m); !why.empty()) return refused("%s", why.c_str());
  PERI_ASSIGN(const auto isa, best_isa(target));
  if (!(p.graph->inputs[static_cast<size_t>(s.x)]->type.layout == ir::nhwc()) ||
      !(p.graph->outputs[0]->type.layout == ir::nhwc())) {
    return invalid("the region has other layouts than its configuration says");
  }
  const WinogradPlan plan = plan_winograd(s.shape, m, isa, panels, target.threads);
  return Planned{std::move(s), plan, m};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Planned made, planned(p, config, target));
  return conv_needs(made.plan);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Planned made, planned(p, config, *c.target));
  MatchedConv& s = made.conv;
  const auto isa = made.plan.isa;
  const int64_t m = made.m;
  PERI_TRY(pack_once(c, "", packed_winograd_floats(s.shape, m, isa), [&](float* to) {
    pack_winograd_weights(c.constants[static_cast<size_t>(s.w)].as<float>().data(), s.shape, m, isa, to);
  }));
  const int taken = shared_residual(p, s.epilogue);
  return conv_instance(std::move(s), made.plan, c, taken);
}

}  // namespace

const Entry conv_winograd_f32_entry{{
    .name = "conv_winograd_f32",
    .version = 1,
    .provider = "peri",
    .takes = "float32 3x3 convolution at stride 1, NHWC, constant weights, with bias, residual and activation",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    .tunables = {{"panels", "panels of output channels that a task computes of a block of tiles", {1, 2, 4, 8}}},
    .takes_constants = true,
}};

}  // namespace peri::kernels
