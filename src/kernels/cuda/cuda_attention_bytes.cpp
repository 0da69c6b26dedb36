// Kernel cuda_attention_bytes: the attention of quantised models on the tensor cores of a GPU since sm_80, from the
// product of queries and keys to that by the values, with the chains between and the transposes around them: sums in
// int32, exact; scores and probabilities are not written to memory.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/code/attention_shape.hpp"
#include "kernels/cuda/code/byte_attention_text.hpp"
#include "kernels/cuda/code/bytes.hpp"
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/warp.hpp"
#include "kernels/match/byte_attention.hpp"
#include "kernels/match/part.hpp"

namespace peri::kernels {
extern const Entry cuda_attention_bytes_entry;

namespace {
using cuda::Bytes;
using cuda::KernelLaunch;
using cuda::Signature;
constexpr int64_t kRows = 16;  // queries of a block
// Chunks of which a warp keeps the scores in shared memory; where it has more it computes them twice. On an H200 that
// takes 1.4 to 1.5 times as long, of 12 heads of 384 or 512 keys and batches of 1 to 32 (3 and 4 chunks).
constexpr int64_t kMaxHeld = 8;
constexpr int64_t kMaxDepth = 128;  // of a head: its sums are held in registers
// How many warps of a block share the keys, and how many of them a warp processes at once.
struct Way {
  int64_t warps, chunk;
  std::string config() const { return format("warps=%d keys=%d", static_cast<int>(warps), static_cast<int>(chunk)); }
};
constexpr Way kWays[] = {{8, 16}, {4, 32}, {4, 16}};
constexpr unsigned kNoSign = 0x80808080;  // exclusive or with four unsigned bytes: 128 is taken from each

struct Read {
  ByteAttention matched;
  Bytes scores, values;
  int64_t batch = 1, heads = 1, queries = 1, keys = 1;
  int64_t depth() const { return matched.q.extent[3]; }
  int64_t width() const { return matched.v.extent[3]; }
  int64_t blocks() const { return batch * heads * ((queries + kRows - 1) / kRows); }
  // Chunks of each warp, and how many of them it keeps the scores of; 0: they are too many, and are computed twice.
  int64_t chunks(const Way& w) const { return (keys + w.chunk * w.warps - 1) / (w.chunk * w.warps); }
  int64_t held(const Way& w) const { return chunks(w) > kMaxHeld ? 0 : chunks(w); }
};

Status check_view(const HeadView& v) {
  if (v.stride[3] != 1) return refused("heads that do not lie together");
  for (size_t k = 0; k < 3; ++k)
    if (v.stride[k] % 16 != 0) return refused("heads that do not begin at multiples of 16 bytes");
  const int64_t size = v.extent[3];
  if (size % 16 != 0 || size == 0 || size > kMaxDepth) return refused("heads of other sizes than 16, 32, ... 128");
  return Ok{};
}

// One scale and one zero point of each; the value of a constant zero point.
Status check_scales(const Bytes& b) {
  for (const ir::Value* v : {b.a_scale, b.b_scale, b.y_scale, b.a_zero, b.b_zero, b.y_zero})
    if (!v || cuda::numel_of(*v) != 1) return refused("a scale or zero point for each row or column");
  for (const ir::Value* v : {b.a_zero, b.b_zero})
    if (!v->constant) return refused("a zero point that is no constant of the region");
  return Ok{};
}

Result<Read> read(const Problem& p) {
  Read r;
  PERI_ASSIGN(r.matched, match_byte_attention(p));
  PERI_TRY(cuda::check_row_major(*p.graph));
  PERI_ASSIGN(r.scores, cuda::read_bytes(*r.matched.scores));
  PERI_ASSIGN(r.values, cuda::read_bytes(*r.matched.values));
  for (const Bytes* b : {&r.scores, &r.values}) PERI_TRY(check_scales(*b));
  for (const HeadView* v : {&r.matched.q, &r.matched.k, &r.matched.v, &r.matched.y}) PERI_TRY(check_view(*v));
  std::vector<int64_t> d = dims_of(*r.matched.scores->out());
  d.insert(d.begin(), 4 - d.size(), 1);
  r.batch = d[0];
  r.heads = d[1];
  r.queries = d[2];
  r.keys = d[3];
  if (r.keys == 0) return refused("no keys");
  if (r.keys > cuda::kMaxByteProducts) return refused("sums of more products");
  const ir::Value* made = r.matched.softmax->out();
  if (made->type.dtype != DType::kF32 || r.matched.softmax->in(0)->type.dtype != DType::kF32)
    return refused("takes a softmax of f32 only");
  return r;
}

// A function of the element-wise nodes between `from` and `to`.
Result<std::string> chain_text(const Problem& p, std::span<const ir::Node* const> nodes, const ir::Value* from,
                               const ir::Value* to, const std::string& name, int64_t keys, Signature* s) {
  const ir::Graph part = part_of(*p.graph, nodes, from, std::span(&to, 1));
  Problem problem{&part, p.constant};
  problem.constant.push_back(false);
  return cuda::element_text(problem, name, keys, s);
}

struct Text {
  std::string out;
  void define(const std::string& name, const std::string& value) { out += "#define PERI_" + name + " " + value + "\n"; }
  void define(const std::string& name, int64_t value) { define(name, std::to_string(value)); }
};

// Zero points as parameters; those that are none are left out of the text.
void zero_points(const Read& r, Signature* s, Text* t) {
  const auto one = [&](const std::string& name, const ir::Value* zero, const ir::Value* turned) {
    const int64_t value = zero->constant->i64(0) - (turned && turned->type.dtype == DType::kU8 ? 128 : 0);
    t->define(name + "_ZERO", value == 0 ? "0" : s->whole_number(static_cast<int>(value)));
    t->define(name + "_ZEROS", value != 0 ? 1 : 0);
    if (turned) t->define(name + "_TURNED", format("%uu", turned->type.dtype == DType::kU8 ? kNoSign : 0));
  };
  one("Q", r.scores.a_zero, nullptr);
  one("K", r.scores.b_zero, r.matched.k_from);
  one("P", r.values.a_zero, nullptr);
  one("V", r.values.b_zero, r.matched.v_from);
}

int64_t shared_bytes(const Read& r, const Way& w) {
  const int64_t scores = std::max<int64_t>(1, r.held(w)) * kRows * w.chunk, sums = kRows * (r.width() + 4);
  return w.warps * (scores + 2 * kRows + sums + kRows + r.width()) * 4;
}

Result<std::unique_ptr<Instance>> make(const Problem& p, const Read& r, const Way& way) {
  Signature s;
  std::vector<cuda::PackedWeight> packed;
  Text t{std::string(cuda::warp_text())};
  const std::pair<char, const HeadView*> views[] = {
      {'Q', &r.matched.q}, {'K', &r.matched.k}, {'V', &r.matched.v}, {'Y', &r.matched.y}};
  for (const auto& [name, view] : views) t.out += cuda::place_text(name, *view, &s);
  const std::pair<const char*, const ir::Value*> operands[] = {
      {"Q", r.matched.q_from}, {"K", r.matched.k_from}, {"V", r.matched.v_from}};
  for (const auto& [name, v] : operands) {
    PERI_ASSIGN(const std::string from, s.value(p, *v));
    t.define(name, from);
  }
  PERI_ASSIGN(const std::string to, s.output(p, 0));
  t.define("Y", to);
  const auto multiply = [](const ir::Value* left) {
    return std::string(left->type.dtype == DType::kU8 ? "peri_mma_u8" : "peri_mma_i8");
  };
  t.define("MULTIPLY_Q", multiply(r.scores.a));
  t.define("MULTIPLY_P", multiply(r.values.a));
  t.define("WARPS", way.warps);
  t.define("CHUNK", way.chunk);
  t.define("HELD", r.held(way));
  t.define("DEPTH", r.depth());
  t.define("VALUES", r.width());
  t.define("HEADS", s.size(r.heads));
  t.define("QUERIES", s.size(r.queries));
  t.define("KEYS", s.size(r.keys));
  zero_points(r, &s, &t);
  PERI_ASSIGN(const cuda::Rounding score, cuda::read_rounding(p, r.scores, r.keys, &s, &packed));
  PERI_ASSIGN(const cuda::Rounding value, cuda::read_rounding(p, r.values, r.width(), &s, &packed));
  if (value.table) return refused("a table behind the values");
  t.define("SCORE_FACTOR", score.factor);
  t.define("RESULT_FACTOR", value.factor);
  t.out += score.text("peri_score") + value.text("peri_result");
  if (score.table != r.matched.table) return refused("a table that others read, too");
  const ir::Value* first = (score.table ? score.table : r.matched.scores)->out();
  PERI_ASSIGN(const std::string behind_scores,
              chain_text(p, r.matched.before, first, r.matched.softmax->in(0), "peri_behind_scores", r.keys, &s));
  PERI_ASSIGN(const std::string behind_softmax, chain_text(p, r.matched.between, r.matched.softmax->out(),
                                                           r.matched.values->in(0), "peri_behind_softmax", r.keys, &s));
  t.define("ALIGNED", s.aligned());
  if (r.blocks() == 0) return cuda::LaunchInstance::make(std::vector<KernelLaunch>{}, 0, std::move(packed));
  t.out += behind_scores + behind_softmax + cuda::byte_attention_text(r.depth(), r.width());
  KernelLaunch launch =
      s.launch("peri_attention", s.text(cuda::most_elements(p), t.out), r.blocks(), static_cast<int>(way.warps * 32));
  launch.shared_bytes = shared_bytes(r, way);
  return cuda::LaunchInstance::make({std::move(launch)}, 0, std::move(packed));
}

// A guess (see launch.hpp): the work on a score is mostly that of its chain.
double guess_ms(const Read& r, const Way& w, int multiprocessors) {
  constexpr double kWarpsAtOnce = 16;
  const double waves = std::ceil(static_cast<double>(r.blocks() * w.warps) / (multiprocessors * kWarpsAtOnce));
  const double pairs = static_cast<double>(r.chunks(w) * w.chunk) / 16, twice = r.held(w) == 0 ? 1.6 : 1;
  return (3000 + 60 * static_cast<double>(w.warps) + waves * pairs * twice * 500) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Read r, read(p));
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  std::vector<Offer> out;
  for (const Way& way : kWays) {
    if (shared_bytes(r, way) > gpu.shared_bytes) continue;
    PERI_TRY(make(p, r, way));
    out.push_back(cuda::plain_offer(p)[0]);
    out.back().config = way.config();
    out.back().guess_ms = guess_ms(r, way, gpu.multiprocessors);
  }
  if (out.empty()) return refused("its heads take more shared memory than a block may have");
  std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  const auto way = std::find_if(std::begin(kWays), std::end(kWays), [&](const Way& w) { return config == w.config(); });
  if (way == std::end(kWays)) return invalid("no such block").expecting(kWays[0].config());
  PERI_ASSIGN(const Read r, read(p));
  if (shared_bytes(r, *way) > cuda::limits_of(*context.target).shared_bytes)
    return refused("its heads take more shared memory than a block may have");
  return make(p, r, *way);
}
}  // namespace

const Entry cuda_attention_bytes_entry{{
    .name = "cuda_attention_bytes",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "attention of bytes on a GPU's tensor cores: two products, the chains between, softmax, transposes; exact "
             "sums, heads of 16 to 128",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {// The plain form, of more keys than any way keeps the scores of.
         "graph { input q: u8[1,20,2,64]; input k: u8[1,530,2,64]; input v: i8[1,2,530,64]; const s: f32[] = [0.02]; "
         "const z: u8[] = [119]; const w: u8[] = [60]; const i: i8[] = [11]; const t: f32[] = [0.7]; const x: f32[] = "
         "[0.03]; const g: f32[] = [0.0004]; const n: u8[] = [0]; const o: f32[] = [0.004]; a = transpose(q) {perm=[0, "
         "2, 1, 3]}; b = transpose(k) {perm=[0, 2, 3, 1]}; d = qlinear_matmul(a, s, z, b, s, w, t, z); j = "
         "from_bytes(d, x, z); p = softmax(j); r = to_bytes(p, g, n); y = qlinear_matmul(r, g, n, v, s, i, o, z); "
         "output y }",
         // As exporters write it: a mask, and a table for what scales the scores. Scores are spread over their bytes,
         // and probabilities over theirs, so that zero points show.
         "graph { input q: u8[2,20,3,16]; input k: u8[2,70,3,16]; input v: u8[2,70,3,32]; input m: f32[2,1,1,70]; "
         "const s: f32[] = [0.02]; const z: u8[] = [119]; const w: u8[] = [60]; const t: f32[] = [0.3]; const x: f32[] "
         "= [0.03]; const o: u8[] = [131]; const g: f32[] = [0.002]; const n: u8[] = [0]; const l: u8[256] = "
         "seeded(90, 2); a = transpose(q) {perm=[0, 2, 1, 3]}; b = transpose(k) {perm=[0, 2, 3, 1]}; c = transpose(v) "
         "{perm=[0, 2, 1, 3]}; d = qlinear_matmul(a, s, z, b, s, w, t, z); e = byte_table(d, l); f = from_bytes(e, x, "
         "o); h = add(f, m); i = to_bytes(h, x, o); j = from_bytes(i, x, o); p = softmax(j); r = to_bytes(p, g, n); u "
         "= qlinear_matmul(r, g, n, c, s, o, s, z); y = transpose(u) {perm=[0, 2, 1, 3]}; output y }",
         // Signed probabilities, whose zero point takes sums of values.
         "graph { input q: i8[2,5,48]; input k: i8[2,600,48]; input v: i8[2,600,16]; const s: f32[] = [0.02]; const "
         "z: i8[] = [-3]; const w: i8[] = [-40]; const t: f32[] = [0.8]; const x: f32[] = [0.05]; const g: f32[] = "
         "[0.0001]; const n: i8[] = [-128]; const o: f32[] = [0.004]; c = transpose(k) {perm=[0, 2, 1]}; d = "
         "qlinear_matmul(q, s, z, c, s, w, t, z); j = from_bytes(d, x, z); p = softmax(j); r = to_bytes(p, g, n); y = "
         "qlinear_matmul(r, g, n, v, s, z, o, z); output y }"},
}};

}  // namespace peri::kernels
