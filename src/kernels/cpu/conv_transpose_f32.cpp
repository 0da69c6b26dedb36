// Kernel conv_transpose_f32: float32 transposed convolution in NHWC with its epilogue, by stride phases. Weights are
// packed once for all image sizes.
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

struct Setup {
  TransposedShape shape;
  MatchedEpilogue epilogue;  // the bias is its first step
  int x = -1, w = -1;
};

Result<Setup> read(const Problem& p) {
  Setup s;
  PERI_ASSIGN(s.shape, match_transposed(p));
  if (const std::string why = cpu::refuse_transposed(s.shape); !why.empty()) return refused("%s", why.c_str());
  s.x = input_index(*p.graph, p.anchor().in(0));
  s.w = input_index(*p.graph, p.anchor().in(1));
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
