// Kernel conv_pair_f32: a pointwise convolution with its epilogue and the depthwise one that is its only user, with its
// own epilogue: the first half of an inverted bottleneck. The tensor between them, the widest of such networks, stays
// in L2.
#include "kernels/cpu/conv/pair.hpp"
#include "kernels/cpu/gemm/bound_epilogue.hpp"
#include "kernels/entry.hpp"
#include "kernels/match/conv_match.hpp"
#include "kernels/match/part.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {
namespace {
using cpu::best_isa;
using cpu::isa_name;
using cpu::PairArgs;
using cpu::PairPlan;
using cpu::PairShape;
using cpu::PostKind;

struct MatchedPair {
  MatchedConv first, second;  // graph inputs are those of the region
  PairShape shape() const { return {first.shape, second.shape}; }
};

// Steps that need no place in the image: a block of a strip is a piece of its own.
Status refuse_places(const MatchedEpilogue& e, const Problem& p) {
  for (const MatchedOp& s : e.ops) {
    const PostKind kind = s.op.kind;
    const bool anywhere = kind == PostKind::kColAdd || kind == PostKind::kColMul || kind == PostKind::kAffine ||
                          kind == PostKind::kActivation;
    if (!anywhere || (s.input >= 0 && !p.constant[static_cast<size_t>(s.input)]))
      return refused("an epilogue that reads another activation");
  }
  return Ok{};
}

Result<MatchedPair> match(const Problem& p) {
  const ir::Graph& g = *p.graph;
  std::vector<size_t> convs;
  for (size_t k = 0; k < g.nodes.size(); ++k)
    if (g.nodes[k]->op == "conv") convs.push_back(k);
  if (convs.size() != 2 || convs[0] != 0 || g.outputs.size() != 1) return refused("not two convolutions");
  const ir::Value* middle = g.nodes[convs[1]]->in(0);
  if (!middle->producer || middle->users.size() != 1 || middle == g.outputs[0])
    return refused("the second convolution does not alone read the first");
  const ir::Graph head = part_of(g, 0, convs[1], nullptr, middle),
                  tail = part_of(g, convs[1], g.nodes.size(), middle, g.outputs[0]);
  std::vector<bool> with_middle = p.constant;
  with_middle.push_back(false);
  MatchedPair m;
  PERI_ASSIGN(m.first, match_conv_any_layout(Problem{&head, p.constant}));
  PERI_ASSIGN(m.second, match_conv_any_layout(Problem{&tail, with_middle}));
  if (m.second.x != static_cast<int>(g.inputs.size())) return refused("the second convolution does not read the first");
  PERI_TRY(refuse_places(m.first.epilogue, p));
  PERI_TRY(refuse_places(m.second.epilogue, Problem{&tail, with_middle}));
  if (const std::string why = cpu::refuse_pair(m.shape()); !why.empty()) return refused("%s", why.c_str());
  return m;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const MatchedPair m, match(p));
  PERI_ASSIGN(const auto isa, best_isa(target));
  std::vector<Offer> out;
  for (const char* config :
       {"channels=32 strip=256", "channels=64 strip=256", "channels=64 strip=512", "channels=128 strip=512"}) {
    Offer o;
    o.config = config;
    ask_for_nhwc(p, &o);
    o.requires_isa = isa_name(isa);
    out.push_back(std::move(o));
  }
  return out;
}

Needs needs_from_plan(const PairPlan& plan) {
  return needs_of_tasks(plan.tasks, static_cast<size_t>(plan.scratch_floats) * sizeof(float));
}

class PairInstance final : public Instance {
 public:
  PairInstance(MatchedPair pair, PairPlan plan, Packed packed, std::vector<Tensor> constants)
      : Instance(needs_from_plan(plan)),
        pair_(std::move(pair)),
        plan_(std::move(plan)),
        packed_(std::move(packed)),
        constants_(std::move(constants)) {}
  void run_task(int, int64_t task, const Args& args) const override {
    PairArgs a;
    a.x = static_cast<const float*>(args.in[static_cast<size_t>(pair_.first.x)]);
    a.w = packed_floats(packed_);
    a.y = static_cast<float*>(args.out[0]);
    a.first = bind_epilogue(pair_.first.epilogue, constants_, args, plan_.shape.first.oc);
    a.second = bind_epilogue(pair_.second.epilogue, constants_, args, plan_.shape.second.oc);
    cpu::run_task(plan_, a, task, reinterpret_cast<float*>(args.scratch));
  }

 private:
  MatchedPair pair_;
  PairPlan plan_;
  Packed packed_;
  std::vector<Tensor> constants_;
};

struct Planned {
  MatchedPair pair;
  PairPlan plan;
};
Result<Planned> planned(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(MatchedPair m, match(p));
  PERI_ASSIGN(const int64_t channels, config_int(config, "channels", 16, 1024, 32));
  PERI_ASSIGN(const int64_t strip, config_int(config, "strip", 1, 1 << 20, 256));
  if (channels % 16 != 0) return invalid("bad configuration").but_found(std::string(config));
  PERI_ASSIGN(const auto isa, best_isa(target));
  if (!(p.graph->inputs[static_cast<size_t>(m.first.x)]->type.layout == ir::nhwc()) ||
      !(p.graph->outputs[0]->type.layout == ir::nhwc()))
    return invalid("the region has other layouts than its configuration says");
  PairPlan plan = cpu::plan_pair(m.shape(), channels, strip << 10, isa, target.threads);
  return Planned{std::move(m), std::move(plan)};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Planned made, planned(p, config, target));
  return needs_from_plan(made.plan);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Planned made, planned(p, config, *c.target));
  MatchedPair& m = made.pair;
  PairPlan& plan = made.plan;
  PERI_ASSIGN(const auto isa, best_isa(*c.target));
  PERI_TRY(pack_once(c, "", cpu::packed_pair_floats(plan.shape, plan.block, isa), [&](float* to) {
    cpu::pack_pair_weights(c.constants[static_cast<size_t>(m.first.w)].as<float>().data(),
                           c.constants[static_cast<size_t>(m.second.w)].as<float>().data(), plan.shape, plan.block, isa,
                           to);
  }));
  std::vector<Tensor> constants = c.constants.all_but({m.first.w, m.second.w});
  return std::unique_ptr<Instance>(
      std::make_unique<PairInstance>(std::move(m), std::move(plan), *c.packed, std::move(constants)));
}
}  // namespace

extern const Entry conv_pair_f32_entry;
const Entry conv_pair_f32_entry{{
    .name = "conv_pair_f32",
    .version = 1,
    .provider = "peri",
    .takes = "a pointwise float32 convolution and the depthwise one behind it, NHWC, constant weights, with bias and "
             "activation",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    .samples =
        {"graph { input x: f32[2,24,9,7]; const w: f32[40,24,1,1] = seeded(0.2, 1); const b: f32[40] = seeded(0.5, 2); "
         "const v: f32[40,1,3,3] = seeded(0.3, 3); const c: f32[40] = seeded(0.5, 4); m = conv(x, w, b); t = relu(m); "
         "y = conv(t, v, c) {pads=[1,1,1,1], group=40}; output y }",
         "graph { input x: f32[1,16,13,18]; const w: f32[72,16,1,1] = seeded(0.25, 1); "
         "const v: f32[72,1,5,5] = seeded(0.2, 2); m = conv(x, w); t = hard_swish(m); "
         "y = conv(t, v) {pads=[2,2,2,2], strides=[2,2], group=72}; output y }",
         "graph { input x: f32[3,1600,4,5]; const w: f32[136,1600,1,1] = seeded(0.025, 1); "
         "const b: f32[136] = seeded(0.5, 2); const v: f32[136,1,3,3] = seeded(0.3, 3); m = conv(x, w, b); "
         "s = sigmoid(m); t = mul(m, s); y = conv(t, v) {pads=[1,1,1,1], group=136}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
