// Kernel attention_f64: fused attention of float64 by blocks of queries, over layouts whose values and result are dense
// along the depth, with additive or boolean mask, soft cap and triangle.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/cpu/typed/joins.hpp"
#include "kernels/cpu/typed/products.hpp"
#include "kernels/match/attention_match.hpp"

namespace peri::kernels {
namespace {
namespace typed = cpu::typed;

constexpr int64_t kMaxRows = 32, kMinRows = 4;    // queries of a task: they share what is read of k and v
constexpr int64_t kMaxScores = int64_t{1} << 18;  // of a task, unless kMinRows queries have more
constexpr int64_t kColumns = 64;                  // keys that are turned at once
constexpr int64_t kMaxPacked = 8192;              // rows of a right side that a product may pack: a part of L2
constexpr double kHidden = -std::numeric_limits<double>::infinity();

int64_t whole_lines(int64_t elements) { return (elements + 7) / 8 * 8; }

struct Shape {
  MatchedAttention m;
  double scale = 1, cap = 0;  // in float64, which `m` does not hold
  int64_t rows() const { return std::clamp(kMaxScores / m.keys, kMinRows, kMaxRows); }
  int64_t blocks() const { return (m.queries + rows() - 1) / rows(); }
  int64_t tasks() const { return m.batch * m.heads * blocks(); }
  bool turned() const { return m.k.stride[2] == 1; }  // keys are neighbours: a right side as it stands
  // Elements of a task's memory, in this order: queries, keys turned, scores, what a product packs.
  int64_t of_queries() const { return whole_lines(rows() * m.depth); }
  int64_t of_keys() const { return turned() ? 0 : m.depth * kColumns; }
  int64_t of_scores() const { return whole_lines(rows() * m.keys); }
  int64_t of_pack() const {
    const int64_t most = std::max(m.keys, m.depth);
    return most <= kMaxPacked ? most * typed::kProductColumnBytes / static_cast<int64_t>(sizeof(double)) : 0;
  }
  int64_t scratch() const {
    return (of_queries() + of_keys() + of_scores() + of_pack()) * static_cast<int64_t>(sizeof(double));
  }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  Shape s;
  PERI_ASSIGN(s.m, match_attention(n));
  if (p.graph->nodes.size() != 1 || n.outputs.size() != 1) return refused("takes no epilogue");
  for (size_t k = 0; k < 3; ++k)
    if (n.in(k)->type.dtype != DType::kF64) return refused("takes f64 only");
  const MatchedAttention& m = s.m;
  if (m.v.stride[3] != 1 || m.y.stride[3] != 1) return refused("values or result not dense along the depth");
  if (m.batch * m.heads * m.queries * m.keys * m.depth * m.value_depth == 0) return refused("an empty tensor");
  if (m.mask != DType::kInvalid && m.mask != DType::kF64 && m.mask != DType::kF32 && m.mask != DType::kBool)
    return refused("a mask of another type");
  s.scale = n.f("scale", 1 / std::sqrt(static_cast<double>(m.depth)));
  s.cap = n.f("softcap");
  return s;
}

struct Data {
  const double *q, *k, *v;
  const void* mask;
  double* y;
};

class Attention {
 public:
  Attention(const Shape& s, cpu::Isa isa) : s_(s) {
    const bool wide = isa == cpu::Isa::kAvx512;
    product_ = (wide ? typed::avx512::kProducts : typed::avx2::kProducts).f64;
    most_ = (wide ? typed::avx512::find_joins : typed::avx2::find_joins)(typed::Join::kMax, typed::Elem::kF64);
    sum_ = (wide ? typed::avx512::find_joins : typed::avx2::find_joins)(typed::Join::kSum, typed::Elem::kF64);
    const auto find = wide ? typed::avx512::find : typed::avx2::find;
    exp_ = find(typed::Op::kExp, typed::Elem::kF64, typed::Elem::kF64);
    tanh_ = find(typed::Op::kTanh, typed::Elem::kF64, typed::Elem::kF64);
  }

  void run_task(int64_t task, const Data& d, double* scratch) const {
    const MatchedAttention& m = s_.m;
    const int64_t first = task % s_.blocks() * s_.rows(), head = task / s_.blocks() % m.heads,
                  batch = task / s_.blocks() / m.heads, kv = head / (m.heads / m.kv_heads);
    const int64_t rows = std::min(s_.rows(), m.queries - first);
    // No row of the block sees a key beyond these.
    const int64_t keys = m.causal ? std::clamp<int64_t>(first + rows + m.causal_offset, 1, m.keys) : m.keys;
    double *const q = scratch, *const turned = q + s_.of_queries(), *const scores = turned + s_.of_keys(),
                  *const pack = s_.of_pack() > 0 ? scores + s_.of_scores() : nullptr;
    const double* const from = d.q + batch * m.q.stride[0] + head * m.q.stride[1] + first * m.q.stride[2];
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t e = 0; e < m.depth; ++e) q[i * m.depth + e] = from[i * m.q.stride[2] + e * m.q.stride[3]];
    const double* const k = d.k + batch * m.k.stride[0] + kv * m.k.stride[1];
    if (s_.turned())
      product_({q, k, scores, rows, keys, m.depth, m.depth, m.k.stride[3], keys, pack});
    else
      by_columns(q, k, rows, keys, turned, scores);
    for (int64_t i = 0; i < rows; ++i) {
      double* const row = scores + i * keys;
      scaled(row, keys);
      if (d.mask)
        masked(row, keys, d.mask,
               batch * m.mask_strides[0] + head * m.mask_strides[1] + (first + i) * m.mask_strides[2]);
      if (m.causal) std::fill(row + std::clamp<int64_t>(first + i + m.causal_offset + 1, 0, keys), row + keys, kHidden);
      soften(row, keys);
    }
    product_({scores, d.v + batch * m.v.stride[0] + kv * m.v.stride[1],
              d.y + batch * m.y.stride[0] + head * m.y.stride[1] + first * m.y.stride[2], rows, m.value_depth, keys,
              keys, m.v.stride[2], m.y.stride[2], pack});
  }

 private:
  // Scores of keys whose depth lies side by side.
  void by_columns(const double* q, const double* k, int64_t rows, int64_t keys, double* turned, double* scores) const {
    const MatchedAttention& m = s_.m;
    for (int64_t at = 0; at < keys; at += kColumns) {
      const int64_t columns = std::min(kColumns, keys - at);
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t e = 0; e < m.depth; ++e)
          turned[e * kColumns + j] = k[(at + j) * m.k.stride[2] + e * m.k.stride[3]];
      product_({q, turned, scores + at, rows, columns, m.depth, m.depth, kColumns, keys, nullptr});
    }
  }

  [[gnu::target("avx2")]] void scaled(double* row, int64_t keys) const {
    const double by = s_.cap > 0 ? s_.scale / s_.cap : s_.scale;
    for (int64_t j = 0; j < keys; ++j) row[j] *= by;
    if (s_.cap == 0) return;
    tanh_({row, nullptr, nullptr, row, keys, nullptr});
    for (int64_t j = 0; j < keys; ++j) row[j] *= s_.cap;
  }

  void masked(double* row, int64_t keys, const void* mask, int64_t at) const {
    const int64_t step = s_.m.mask_strides[3];
    if (s_.m.mask == DType::kBool) {
      const uint8_t* const seen = static_cast<const uint8_t*>(mask) + at;
      for (int64_t j = 0; j < keys; ++j) row[j] = seen[j * step] != 0 ? row[j] : kHidden;
    } else if (s_.m.mask == DType::kF32) {
      const float* const more = static_cast<const float*>(mask) + at;
      for (int64_t j = 0; j < keys; ++j) row[j] += static_cast<double>(more[j * step]);
    } else {
      const double* const more = static_cast<const double*>(mask) + at;
      for (int64_t j = 0; j < keys; ++j) row[j] += more[j * step];
    }
  }

  [[gnu::target("avx2")]] void soften(double* row, int64_t keys) const {
    double most = kHidden, sum = 0;
    most_.run(row, keys, &most);
    if (most == kHidden && s_.m.zero_hidden) return void(std::fill(row, row + keys, 0.0));
    for (int64_t j = 0; j < keys; ++j) row[j] -= most;
    exp_({row, nullptr, nullptr, row, keys, nullptr});
    sum_.run(row, keys, &sum);
    for (int64_t j = 0; j < keys; ++j) row[j] /= sum;
  }

  Shape s_;
  void (*product_)(const typed::ProductArgs& args) = nullptr;
  typed::Joins most_, sum_;
  typed::Loop exp_ = nullptr, tanh_ = nullptr;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const ir::Node& n = p.anchor();
  const auto source = [&](size_t port) { return Source::of(p, n.in(port), c.constants); };
  const auto f64 = [](const Source& from, const Args& args) { return static_cast<const double*>(from.data(args)); };
  return TaskInstance::make(
      s.tasks(), static_cast<size_t>(s.scratch()),
      [attention = Attention(s, isa), f64, q = source(0), k = source(1), v = source(2), mask = source(3)](
          int64_t task, const Args& args) {
        attention.run_task(
            task, {f64(q, args), f64(k, args), f64(v, args), mask.data(args), static_cast<double*>(args.out[0])},
            reinterpret_cast<double*>(args.scratch));
      });
}
}  // namespace

extern const Entry attention_f64_entry;
const Entry attention_f64_entry{{
    .name = "attention_f64",
    .version = 1,
    .provider = "peri",
    .takes = "fused attention in f64, values and result dense along the depth, masks, soft cap, causal",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input q: f64[1,2,1,16]; input k: f64[1,2,300,16]; input v: f64[1,2,300,16]; y = attention(q, k, v) "
         "{causal=1, scale=0.5}; output y }",
         "graph { input q: f64[2,3,41,19]; input k: f64[2,3,70,19]; input v: f64[2,3,70,35]; y = attention(q, k, v); "
         "output y }",
         "graph { input q: f64[2,6,5,8]; input k: f64[2,2,8,9]; input v: f64[2,2,9,8]; input m: f64[2,1,1,9]; y = "
         "attention(q, k, v, m) {k_layout=\"bhds\", softcap=2.0}; output y }",
         "graph { input q: f64[2,37,3,8]; input k: f64[2,37,3,8]; input v: f64[2,37,3,8]; input m: bool[37,37]; y = "
         "attention(q, k, v, m) {causal=1, k_layout=\"bshd\", q_layout=\"bshd\", v_layout=\"bshd\", y_layout=\"bshd\", "
         "zero_hidden_rows=1}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
