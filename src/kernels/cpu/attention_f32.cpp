// Kernel attention_f32: fused attention over any layout of heads, with additive or boolean mask.
#include <algorithm>
#include <array>

#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/attention_match.hpp"

namespace peri::kernels {
extern const Entry attention_f32_entry;

namespace {
namespace attention = cpu::attention;

attention::Strides strides_of(const std::array<int64_t, 4>& stride) {
  return {stride[0], stride[1], stride[2], stride[3]};
}

Result<attention::Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(const MatchedAttention m, match_attention(n));
  if (p.graph->nodes.size() != 1 || n.outputs.size() != 1) return refused("takes no epilogue");
  for (size_t k = 0; k < 3; ++k)
    if (n.in(k)->type.dtype != DType::kF32) return refused("takes f32 only");
  if (m.v.stride[3] != 1 || m.y.stride[3] != 1) return refused("values or result not dense along the depth");
  if (m.batch * m.heads * m.queries * m.keys * m.depth * m.value_depth == 0) return refused("an empty tensor");
  if (m.causal && m.causal_offset < 0) return refused("causal with fewer keys than queries");
  if (m.mask != DType::kInvalid && m.mask != DType::kF32 && m.mask != DType::kBool)
    return refused("a mask of another type");
  attention::Shape s;
  s.batch = m.batch;
  s.heads = m.heads;
  s.kv_heads = m.kv_heads;
  s.queries = m.queries;
  s.keys = m.keys;
  s.depth = m.depth;
  s.value_depth = m.value_depth;
  s.scale = m.scale;
  s.cap = m.cap;
  s.zero_hidden = m.zero_hidden;
  s.q = strides_of(m.q.stride);
  s.k = strides_of(m.k.stride);
  s.v = strides_of(m.v.stride);
  s.o = strides_of(m.y.stride);
  s.causal = m.causal;
  s.causal_offset = m.causal_offset;
  if (m.mask != DType::kInvalid) s.mask = m.mask == DType::kF32 ? attention::Mask::kAdd : attention::Mask::kBool;
  s.mask_strides = strides_of(m.mask_strides);
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const attention::Shape shape, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  PERI_ASSIGN(const int64_t tiles, setting(attention_f32_entry.kernel, config, "tiles"));
  PERI_ASSIGN(const attention::Plan plan, attention::make_plan(shape, isa, std::max<int64_t>(1, tiles)));
  const ir::Node& n = p.anchor();
  std::array<Source, 4> s;
  for (size_t k = 0; k < 4; ++k) s[k] = Source::of(p, n.in(k), c.constants);
  return TaskInstance::make(
      attention::task_count(plan), static_cast<size_t>(attention::scratch_bytes(plan)),
      [plan, s](int64_t task, const Args& args) {
        attention::run_task(
            plan, {s[0].f32(args), s[1].f32(args), s[2].f32(args), s[3].data(args), static_cast<float*>(args.out[0])},
            task, args.scratch);
      });
}
}  // namespace

const Entry attention_f32_entry{{
    .name = "attention_f32",
    .version = 1,
    .provider = "peri",
    .takes = "fused attention in f32, any layout of heads, masks, soft cap, causal",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .tunables = {{"tiles", "tiles of queries of a head that a task does", {2, 4, 8}}},
    .takes_constants = true,
}};

}  // namespace peri::kernels
