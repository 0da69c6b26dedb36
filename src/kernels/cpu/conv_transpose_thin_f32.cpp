// Kernel conv_transpose_thin_f32: float32 transposed convolution whose groups have few channels, row-major, by stride
// phases. Weights are packed once for all image sizes.
#include "kernels/cpu/conv/woven.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {
namespace {
namespace conv = cpu::conv;

Result<TransposedShape> read(const Problem& p) {
  PERI_ASSIGN(const TransposedShape s, match_transposed(p));
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (const std::string why = conv::refuse_woven(s); !why.empty()) return refused("%s", why.c_str());
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<conv::WovenPlan> planned(const Problem& p, std::string_view config, const Target& target) {
  if (!config.empty()) return invalid("bad configuration").but_found(std::string(config));
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const TransposedShape s, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(target));
  return conv::plan_woven(s, isa);
}

size_t scratch_of(const conv::WovenPlan& plan) { return static_cast<size_t>(plan.scratch_floats) * sizeof(float); }

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const conv::WovenPlan plan, planned(p, config, target));
  return needs_of_tasks(plan.tasks, scratch_of(plan));
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(conv::WovenPlan made, planned(p, config, *c.target));
  const ir::Node& n = p.anchor();
  const TransposedShape& s = made.shape;
  const auto w = static_cast<size_t>(input_index(*p.graph, n.in(1)));
  PERI_TRY(pack_once(c, "", s.ic * (s.oc / s.groups) * s.kh * s.kw,
                     [&](float* to) { conv::pack_woven_weights(c.constants[w].as<float>().data(), s, to); }));
  const Source x = Source::of(p, n.in(0), c.constants), bias = Source::of(p, n.in(2), c.constants);
  const auto plan = std::make_shared<const conv::WovenPlan>(std::move(made));
  return TaskInstance::make(
      plan->tasks, scratch_of(*plan), [plan, x, bias, packed = *c.packed](int64_t task, const Args& args) {
        const conv::WovenArgs a{x.f32(args), packed_floats(packed), bias.f32(args), static_cast<float*>(args.out[0])};
        conv::run_task(*plan, a, task, reinterpret_cast<float*>(args.scratch));
      });
}

}  // namespace

extern const Entry conv_transpose_thin_f32_entry;
const Entry conv_transpose_thin_f32_entry{{
    .name = "conv_transpose_thin_f32",
    .version = 1,
    .provider = "peri",
    .takes = "float32 transposed convolution in two dimensions with few channels a group, row-major, constant weights, "
             "with bias",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    .samples =
        {"graph { input x: f32[2,6,9,37]; const w: f32[6,1,4,4] = seeded(0.2, 1); const b: f32[6] = seeded(0.5, 2); y "
         "= conv_transpose(x, w, b) {group=6, strides=[2,2], pads=[1,1,1,1]}; output y }",
         "graph { input x: f32[1,3,70,65]; const w: f32[3,1,16,16] = seeded(0.2, 1); y = conv_transpose(x, w) "
         "{group=3, strides=[8,8]}; output y }",
         "graph { input x: f32[2,12,11,19]; const w: f32[12,5,3,4] = seeded(0.2, 1); const b: f32[15] = seeded(0.5, "
         "2); y = conv_transpose(x, w, b) {group=3, strides=[2,3], dilations=[3,2], pads=[1,5,0,2], "
         "output_padding=[1,2]}; output y }",
         "graph { input x: f32[1,8,1,3000]; const w: f32[8,3,1,9] = seeded(0.2, 1); y = conv_transpose(x, w) "
         "{strides=[1,4]}; output y }",
         "graph { input x: f32[2,8,5,6]; const w: f32[8,4,2,3] = seeded(0.2, 1); y = conv_transpose(x, w) {group=2, "
         "strides=[5,4], auto_pad=\"SAME_UPPER\"}; output y }",
         "graph { input x: f32[1,4,6,7]; const w: f32[4,2,3,3] = seeded(0.2, 1); y = conv_transpose(x, w) {group=2, "
         "strides=[2,2], output_shape=[9,20]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
