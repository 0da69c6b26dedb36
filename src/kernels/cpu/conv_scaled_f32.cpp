// Kernel conv_scaled_f32: a pointwise convolution of an image whose channels are scaled first, by one factor per
// channel and image: the end of a squeeze-and-excite block. The weights of each image are scaled instead of its pixels.
#include "kernels/cpu/conv/scaled.hpp"
#include "kernels/cpu/gemm/bound_epilogue.hpp"
#include "kernels/entry.hpp"
#include "kernels/match/conv_match.hpp"
#include "kernels/match/part.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {
namespace {
using cpu::best_isa;
using cpu::ConvArgs;
using cpu::ConvPlan;
using cpu::ConvShape;
using cpu::isa_name;

struct Match {
  MatchedConv conv;        // graph inputs are those of the region; shape.n is the whole batch
  int x = -1, scale = -1;  // graph inputs
};

Result<Match> match(const Problem& p) {
  const ir::Graph& g = *p.graph;
  if (g.nodes.size() < 2 || g.nodes[0]->op != "mul" || g.nodes[1]->op != "conv" || g.outputs.size() != 1 ||
      g.nodes[0]->outputs.size() != 1)
    return refused("not a scaled convolution");
  const ir::Node& mul = *g.nodes[0];
  const ir::Value* scaled = mul.outputs[0];
  if (g.nodes[1]->inputs[0] != scaled || scaled->users.size() != 1 || scaled == g.outputs[0])
    return refused("the convolution does not alone read the product");
  if (scaled->type.rank() != 4) return refused("takes two spatial dimensions only");
  const std::vector<int64_t> dims = dims_of(*scaled);
  Match m;
  for (const size_t k : {size_t{0}, size_t{1}}) {
    const ir::Value *x = mul.in(k), *s = mul.in(1 - k);
    if (x->type.rank() != 4 || s->type.rank() != 4 || dims_of(*x) != dims ||
        dims_of(*s) != std::vector<int64_t>{dims[0], dims[1], 1, 1})
      continue;
    m.x = input_index(g, x);
    m.scale = input_index(g, s);
  }
  if (m.x < 0 || m.scale < 0 || p.constant[static_cast<size_t>(m.x)] || p.constant[static_cast<size_t>(m.scale)])
    return refused("the factors are not one a channel and image");
  const ir::Graph rest = part_of(g, 1, g.nodes.size(), scaled, g.outputs[0]);
  std::vector<bool> constant = p.constant;
  constant.push_back(false);
  PERI_ASSIGN(m.conv, match_conv_any_layout(Problem{&rest, constant}));
  const ConvShape& s = m.conv.shape;
  if (s.kh * s.kw != 1 || s.sh * s.sw != 1 || s.top + s.left + s.bottom + s.right != 0 || s.groups != 1)
    return refused("the convolution is not pointwise");
  if (m.conv.x != static_cast<int>(g.inputs.size())) return refused("the convolution does not read the product");
  if (const std::string why = cpu::refuse_conv(s); !why.empty()) return refused("%s", why.c_str());
  return m;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const Match m, match(p));
  // Of one pixel it is done, but nothing is gained: the same for all sizes that an offer at another size holds for.
  if (m.conv.shape.ih * m.conv.shape.iw == 1) return refused("an image of one pixel");
  PERI_ASSIGN(const auto isa, best_isa(target));
  Offer o;
  ask_for_nhwc(p, &o);
  o.in_place = {shared_residual(p, m.conv.epilogue)};  // a pointwise sum is made in one pass
  o.requires_isa = isa_name(isa);
  return std::vector<Offer>{std::move(o)};
}

int64_t floats_of(const ConvPlan& one) { return (packed_conv_floats(one.shape, one.isa) + 15) / 16 * 16; }

// `one`: of one image. A phase scales the weights for each image.
Needs needs_from_plan(const ConvPlan& one, int64_t images) {
  return {static_cast<size_t>(images * floats_of(one)) * sizeof(float),
          static_cast<size_t>(one.scratch_floats) * sizeof(float),
          {images, images * one.tasks},
          {}};
}

class ScaledInstance final : public Instance {
 public:
  ScaledInstance(Match match, const ConvPlan& one, int64_t images, Packed packed, std::vector<Tensor> constants,
                 int taken)
      : Instance(needs_from_plan(one, images)),
        taken_(taken),
        match_(std::move(match)),
        one_(one),
        floats_(floats_of(one)),
        packed_(std::move(packed)),
        constants_(std::move(constants)) {}
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && taken_ >= 0 && input == static_cast<size_t>(taken_);
  }
  void run_task(int phase, int64_t task, const Args& args) const override {
    const int64_t image = phase == 0 ? task : task / one_.tasks;
    const ConvShape& s = one_.shape;
    float* weights = reinterpret_cast<float*>(args.workspace) + image * floats_;
    if (phase == 0) {
      const float* scale = static_cast<const float*>(args.in[static_cast<size_t>(match_.scale)]) + image * s.ic;
      return scale_packed_weights(packed_floats(packed_), s, one_.isa, scale, weights);
    }
    const int64_t pixels = s.ih * s.iw;
    ConvArgs a;
    a.x = static_cast<const float*>(args.in[static_cast<size_t>(match_.x)]) + image * pixels * s.ic;
    a.w = weights;
    a.y = static_cast<float*>(args.out[0]) + image * pixels * s.oc;
    a.epilogue = cpu::from_row(bind_epilogue(match_.conv.epilogue, constants_, args, s.oc), image * pixels);
    cpu::run_task(one_, a, task % one_.tasks, reinterpret_cast<float*>(args.scratch));
  }

 private:
  int taken_;
  Match match_;
  ConvPlan one_;  // of one image
  int64_t floats_;
  Packed packed_;
  std::vector<Tensor> constants_;
};

struct Planned {
  Match match;
  ConvPlan one;
  int64_t images;
};
Result<Planned> planned(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(Match m, match(p));
  if (!config.empty()) return invalid("bad configuration").but_found(std::string(config));
  PERI_ASSIGN(const auto isa, best_isa(target));
  for (size_t k = 0; k < p.graph->inputs.size(); ++k)
    if (!p.constant[k] && p.graph->inputs[k]->type.rank() == 4 && !(p.graph->inputs[k]->type.layout == ir::nhwc()))
      return invalid("the region has other layouts than its configuration says");
  if (!(p.graph->outputs[0]->type.layout == ir::nhwc()))
    return invalid("the region has other layouts than its configuration says");
  const int64_t images = m.conv.shape.n;
  ConvShape one = m.conv.shape;
  one.n = 1;
  return Planned{std::move(m), cpu::plan_conv(one, isa, {}, target.threads), images};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Planned made, planned(p, config, target));
  return needs_from_plan(made.one, made.images);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Planned made, planned(p, config, *c.target));
  Match& m = made.match;
  const ConvShape& one = made.one.shape;
  const auto isa = made.one.isa;
  PERI_TRY(pack_once(c, "", packed_conv_floats(one, isa), [&](float* to) {
    pack_conv_weights(c.constants[static_cast<size_t>(m.conv.w)].as<float>().data(), one, isa, to);
  }));
  std::vector<Tensor> constants = c.constants.all_but({m.conv.w});
  const int taken = shared_residual(p, m.conv.epilogue);
  return std::unique_ptr<Instance>(
      std::make_unique<ScaledInstance>(std::move(m), made.one, made.images, *c.packed, std::move(constants), taken));
}
}  // namespace

extern const Entry conv_scaled_f32_entry;
const Entry conv_scaled_f32_entry{{
    .name = "conv_scaled_f32",
    .version = 1,
    .provider = "peri",
    .takes = "a pointwise float32 convolution of channels scaled before, NHWC, constant weights, with bias, residual "
             "and activation",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    .samples = {"graph { input x: f32[3,24,9,7]; input s: f32[3,24,1,1]; const w: f32[40,24,1,1] = seeded(0.2, 1); "
                "const b: f32[40] = seeded(0.5, 2); m = mul(x, s); y = conv(m, w, b); output y }",
                "graph { input x: f32[2,72,17,18]; input s: f32[2,72,1,1]; const w: f32[19,72,1,1] = seeded(0.1, 1); "
                "m = mul(s, x); y = conv(m, w); output y }",
                "graph { input x: f32[1,3136,3,5]; input s: f32[1,3136,1,1]; "
                "const w: f32[37,3136,1,1] = seeded(0.02, 1); const b: f32[37] = seeded(0.5, 2); m = mul(x, s); "
                "y = conv(m, w, b); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
