// Kernel conv_winograd_f32: 3x3 convolution at stride 1 with its epilogue by Winograd's F(2x2) and F(4x4), NHWC. Fewer
// multiplications, but weights of 1.8 and 4 times the size: which tile is faster depends on image and cache, so both
// are offered.
#include "kernels/cpu/conv/winograd.hpp"
#include "kernels/cpu/gemm/bound_epilogue.hpp"
#include "kernels/entry.hpp"
#include "kernels/match/conv_match.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {
extern const Entry conv_winograd_f32_entry;

namespace {
using cpu::best_isa;
using cpu::ConvArgs;
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

Needs needs_from_plan(const WinogradPlan& plan) {
  return needs_of_tasks(plan.tasks, static_cast<size_t>(plan.scratch_floats) * sizeof(float));
}

class WinogradInstance final : public Instance {
 public:
  WinogradInstance(MatchedConv conv, WinogradPlan plan, Packed packed, std::vector<Tensor> constants, int taken)
      : Instance(needs_from_plan(plan)),
        taken_(taken),
        conv_(std::move(conv)),
        plan_(plan),
        packed_(std::move(packed)),
        constants_(std::move(constants)) {}
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && taken_ >= 0 && input == static_cast<size_t>(taken_);
  }
  void run_task(int, int64_t task, const Args& args) const override {
    ConvArgs a;
    a.x = static_cast<const float*>(args.in[static_cast<size_t>(conv_.x)]);
    a.w = packed_floats(packed_);
    a.y = static_cast<float*>(args.out[0]);
    a.epilogue = bind_epilogue(conv_.epilogue, constants_, args, plan_.shape.oc);
    cpu::run_task(plan_, a, task, reinterpret_cast<float*>(args.scratch));
  }

 private:
  int taken_;
  MatchedConv conv_;
  WinogradPlan plan_;
  Packed packed_;
  std::vector<Tensor> constants_;
};

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
  const WinogradPlan plan = plan_winograd(s.shape, m, isa, panels);
  return Planned{std::move(s), plan, m};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Planned made, planned(p, config, target));
  return needs_from_plan(made.plan);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Planned made, planned(p, config, *c.target));
  MatchedConv& s = made.conv;
  const auto isa = made.plan.isa;
  const int64_t m = made.m;
  PERI_TRY(pack_once(c, "", packed_winograd_floats(s.shape, m, isa), [&](float* to) {
    pack_winograd_weights(c.constants[static_cast<size_t>(s.w)].as<float>().data(), s.shape, m, isa, to);
  }));
  std::vector<Tensor> constants = c.constants.all_but({s.w});
  const int taken = shared_residual(p, s.epilogue);
  return std::unique_ptr<Instance>(
      std::make_unique<WinogradInstance>(std::move(s), made.plan, *c.packed, std::move(constants), taken));
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
