// Kernel attention_f32: fused attention over any layout of heads, with additive or boolean mask.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
extern const Entry attention_f32_entry;

namespace {
namespace attention = cpu::attention;
constexpr std::string_view kLetters = "bhsd";

// Extents and element strides by letter b, h, s, d of a dense tensor whose axes `word` names.
struct View {
  std::array<int64_t, 4> extent = {1, 1, 1, 1}, stride = {0, 0, 0, 0};
  attention::Strides strides() const { return {stride[0], stride[1], stride[2], stride[3]}; }
};
Result<View> view_of(const ir::Value& v, const std::string& word) {
  const std::vector<int64_t> d = dims_of(v);
  if (word.size() != d.size()) return refused("a layout of another rank");
  View out;
  int64_t step = 1;
  for (size_t k = d.size(); k-- > 0;) {
    const size_t letter = kLetters.find(word[k]);
    if (letter == std::string_view::npos) return refused("an unknown layout");
    out.extent[letter] = d[k];
    out.stride[letter] = step;
    step *= d[k];
  }
  return out;
}

Status read_mask(const ir::Node& n, const attention::Shape& s, attention::Shape* out) {
  const ir::Value* v = n.in(3);
  if (!v) return Ok{};
  if (v->type.dtype == DType::kF32)
    out->mask = attention::Mask::kAdd;
  else if (v->type.dtype == DType::kBool)
    out->mask = attention::Mask::kBool;
  else
    return refused("a mask of another type");
  const std::vector<int64_t> d = dims_of(*v);
  const int64_t want[4] = {s.batch, s.heads, s.queries, s.keys};
  int64_t strides[4] = {0, 0, 0, 0}, step = 1;
  for (size_t k = d.size(); k-- > 0;) {
    const size_t at = 4 - d.size() + k;
    if (d[k] != 1 && d[k] != want[at]) return refused("a mask that does not broadcast");
    strides[at] = d[k] == 1 ? 0 : step;
    step *= d[k];
  }
  out->mask_strides = {strides[0], strides[1], strides[2], strides[3]};
  return Ok{};
}

Result<attention::Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "attention") return refused("not a fused attention");
  if (p.graph->nodes.size() != 1 || n.outputs.size() != 1) return refused("takes no epilogue");
  for (size_t k = 0; k < 3; ++k)
    if (n.in(k)->type.dtype != DType::kF32) return refused("takes f32 only");
  PERI_ASSIGN(const View q, view_of(*n.in(0), n.s("q_layout", "bhsd")));
  PERI_ASSIGN(const View k, view_of(*n.in(1), n.s("k_layout", "bhsd")));
  PERI_ASSIGN(const View v, view_of(*n.in(2), n.s("v_layout", "bhsd")));
  PERI_ASSIGN(const View y, view_of(*n.out(), n.s("y_layout", "bhsd")));
  if (v.stride[3] != 1 || y.stride[3] != 1) return refused("values or result not dense along the depth");
  attention::Shape s;
  s.batch = q.extent[0], s.heads = q.extent[1], s.kv_heads = k.extent[1], s.queries = q.extent[2], s.keys = k.extent[2];
  s.depth = q.extent[3], s.value_depth = v.extent[3];
  if (s.batch * s.heads * s.queries * s.keys * s.depth * s.value_depth == 0 || s.heads % s.kv_heads)
    return refused("an empty tensor or uneven heads");
  s.scale = static_cast<float>(n.f("scale", 1.0 / std::sqrt(static_cast<double>(s.depth))));
  s.zero_hidden = n.i("zero_hidden_rows") != 0;
  s.q = q.strides(), s.k = k.strides(), s.v = v.strides(), s.o = y.strides();
  s.causal = n.i("causal") != 0;
  s.causal_offset = s.keys - s.queries;
  if (s.causal && s.causal_offset < 0) return refused("causal with fewer keys than queries");
  PERI_TRY(read_mask(n, s, &s));
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
    .takes = "fused attention in f32, any layout of heads, masks, causal",
    .offer = offer,
    .instantiate = instantiate,
    .tunables = {{"tiles", "tiles of queries of a head that a task does", {2, 4, 8}}},
    .takes_constants = true,
}};

}  // namespace peri::kernels
