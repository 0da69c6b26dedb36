// Layout names as strides.
#include "kernels/match/attention_match.hpp"

#include <cmath>

namespace peri::kernels {

namespace {
constexpr std::string_view kLetters = "bhsd";

Result<HeadView> view_of(const ir::Value& v, const std::string& word) {
  const std::vector<int64_t> d = dims_of(v);
  if (word.size() != d.size()) return refused("a layout of another rank");
  HeadView out;
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

Status read_mask(const ir::Value& v, MatchedAttention* out) {
  out->mask = v.type.dtype;
  if (!is_float(out->mask) && out->mask != DType::kBool) return refused("a mask of another type");
  const std::vector<int64_t> d = dims_of(v);
  if (d.size() > 4) return refused("a mask that does not broadcast");
  const int64_t want[4] = {out->batch, out->heads, out->queries, out->keys};
  int64_t step = 1;
  for (size_t k = d.size(); k-- > 0;) {
    const size_t at = 4 - d.size() + k;
    if (d[k] != 1 && d[k] != want[at]) return refused("a mask that does not broadcast");
    out->mask_strides[at] = d[k] == 1 ? 0 : step;
    step *= d[k];
  }
  return Ok{};
}
}  // namespace

Result<MatchedAttention> match_attention(const ir::Node& n) {
  if (n.op != "attention") return refused("not a fused attention");
  MatchedAttention m;
  PERI_ASSIGN(m.q, view_of(*n.in(0), n.s("q_layout", "bhsd")));
  PERI_ASSIGN(m.k, view_of(*n.in(1), n.s("k_layout", "bhsd")));
  PERI_ASSIGN(m.v, view_of(*n.in(2), n.s("v_layout", "bhsd")));
  PERI_ASSIGN(m.y, view_of(*n.out(), n.s("y_layout", "bhsd")));
  m.batch = m.q.extent[0];
  m.heads = m.q.extent[1];
  m.queries = m.q.extent[2];
  m.depth = m.q.extent[3];
  m.kv_heads = m.k.extent[1];
  m.keys = m.k.extent[2];
  m.value_depth = m.v.extent[3];
  if (m.kv_heads == 0 || m.heads % m.kv_heads != 0) return refused("uneven heads");
  m.scale = static_cast<float>(n.f("scale", 1.0 / std::sqrt(static_cast<double>(m.depth))));
  if (const double cap = n.f("softcap"); cap > 0) {
    m.cap = static_cast<float>(cap);
    if (!std::isnormal(m.cap)) return refused("a soft cap beyond f32");
  }
  m.causal = n.i("causal") != 0;
  m.zero_hidden = n.i("zero_hidden_rows") != 0;
  const std::vector<Dim>* const past = n.dims("past");
  if (past && !past->front().is_const()) return refused("a past of unknown size");
  m.causal_offset = past ? past->front().value() : m.keys - m.queries;
  if (n.in(3)) PERI_TRY(read_mask(*n.in(3), &m));
  return m;
}

}  // namespace peri::kernels
