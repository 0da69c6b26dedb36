// Packing, plans and tasks.
#include "kernels/cpu/integer/product.hpp"

#include <emmintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/gemm/tile.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu::integer {
namespace {
// Measured: benchmarks/results/2026-11-22_constants_more.md.
constexpr int64_t kBlockRows = 64, kBlockCols = kGroup * kPanel;
constexpr int64_t kLargeSide = 1 << 18;  // bytes: no more than a part of L2 beside the left side
constexpr int64_t kWantedTasks = 24;     // for up to a dozen cores without one that waits long

int64_t up(int64_t v, int64_t to) { return (v + to - 1) / to * to; }
int64_t panels_of(int64_t n) { return (n + kPanel - 1) / kPanel; }

// Four rows of 16 columns, one behind the other in each column.
void interleave(const uint8_t* const rows[kQuad], __m128i flip, int8_t* to) {
  __m128i r[kQuad];
  for (int64_t i = 0; i < kQuad; ++i)
    r[i] = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i])), flip);
  const __m128i a = _mm_unpacklo_epi8(r[0], r[1]), b = _mm_unpackhi_epi8(r[0], r[1]), c = _mm_unpacklo_epi8(r[2], r[3]),
                d = _mm_unpackhi_epi8(r[2], r[3]);
  __m128i* const out = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(out, _mm_unpacklo_epi16(a, c));
  _mm_storeu_si128(out + 1, _mm_unpackhi_epi16(a, c));
  _mm_storeu_si128(out + 2, _mm_unpacklo_epi16(b, d));
  _mm_storeu_si128(out + 3, _mm_unpackhi_epi16(b, d));
}
// Adds the four bytes of each of 16 columns to the columns' sums.
void add_quads(const int8_t* quads, __m128i sum[4]) {
  const __m128i ones = _mm_set1_epi16(1);
  for (int v = 0; v < 4; ++v) {
    const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(quads) + v);
    const __m128i pairs = _mm_add_epi16(_mm_srai_epi16(_mm_slli_epi16(q, 8), 8), _mm_srai_epi16(q, 8));
    sum[v] = _mm_add_epi32(sum[v], _mm_madd_epi16(pairs, ones));
  }
}
}  // namespace

std::string_view dot_name(Dot dot) { return dot == Dot::kAmx ? "amx" : dot == Dot::kVnni ? "vnni" : "avx2"; }
std::string_view dot_isa(Dot dot) { return dot == Dot::kAmx ? "amx_int8" : dot == Dot::kVnni ? "avx512_vnni" : "avx2"; }

Result<std::vector<Dot>> dots_of(const Target& target) {
  PERI_TRY(best_isa(target));
  std::vector<Dot> out;
  for (const Dot dot : {Dot::kAmx, Dot::kVnni})
    if (target.has(dot_isa(dot))) out.push_back(dot);
  if (out.empty()) out.push_back(Dot::kAvx2);
  return out;
}

Result<Dot> read_dot(std::string_view config, const Target& target) {
  for (const Dot dot : {Dot::kAmx, Dot::kVnni, Dot::kAvx2}) {
    if (config != "dot=" + std::string(dot_name(dot))) continue;
    if (!target.has(dot_isa(dot)))
      return invalid("the target has not what 'dot=%s' needs", std::string(dot_name(dot)).c_str());
    return dot;
  }
  return invalid("the configuration names no product of bytes")
      .expecting("dot=amx, dot=vnni or dot=avx2")
      .but_found("'" + std::string(config) + "'");
}

const Loops& loops_of(Isa isa) { return isa == Isa::kAvx512 ? avx512::kLoops : avx2::kLoops; }

int64_t panel_bytes(int64_t k) { return up(k, kDepth) * kPanel; }
const int32_t* column_sums(const std::byte* packed, int64_t k, int64_t n) {
  return reinterpret_cast<const int32_t*>(packed + panels_of(n) * panel_bytes(k));
}
const Tiles& tiles_of(Dot dot) { return dot == Dot::kAmx ? kTilesAmx : dot == Dot::kVnni ? kTilesVnni : kTilesAvx2; }

int64_t packed_bytes(int64_t k, int64_t n) {
  return panels_of(n) * (panel_bytes(k) + kPanel * static_cast<int64_t>(sizeof(int32_t)));
}

void pack(const uint8_t* b, int64_t ldb, bool flips, int64_t k, int64_t n, std::byte* to) {
  pack_panels(b, ldb, flips, k, n, 0, panels_of(n), to);
}

int64_t panel_count(int64_t n) { return panels_of(n); }

void pack_panels(const uint8_t* b, int64_t ldb, bool flips, int64_t k, int64_t n, int64_t begin, int64_t end,
                 std::byte* to) {
  const __m128i flip = _mm_set1_epi8(flips ? static_cast<char>(0x80) : 0);
  int32_t* const sums = reinterpret_cast<int32_t*>(to + panels_of(n) * panel_bytes(k));
  for (int64_t p = begin; p < end; ++p) {
    const int64_t first = p * kPanel, cols = std::min(kPanel, n - first);
    int8_t* out = reinterpret_cast<int8_t*>(to) + p * panel_bytes(k);
    int8_t* const filled = out + panel_bytes(k);
    __m128i sum[4] = {};
    for (int64_t q = 0; q < k; q += kQuad, out += kQuad * kPanel) {
      uint8_t edge[kQuad][kPanel];
      const uint8_t* rows[kQuad];
      for (int64_t i = 0; i < kQuad; ++i) {
        rows[i] = b + (q + i) * ldb + first;
        if (q + i < k && cols == kPanel) continue;
        std::memset(edge[i], flips ? 0x80 : 0, kPanel);  // zero once it is flipped
        if (q + i < k) std::memcpy(edge[i], rows[i], static_cast<size_t>(cols));
        rows[i] = edge[i];
      }
      interleave(rows, flip, out);
      add_quads(out, sum);
    }
    std::memset(out, 0, static_cast<size_t>(filled - out));
    std::memcpy(sums + first, sum, sizeof sum);
  }
}

Plan plan_product(const Shape& s, Dot dot, Isa isa) {
  Plan p{.shape = s, .dot = dot, .isa = isa};
  p.rows = kBlockRows;
  const auto blocks = [&](int64_t rows) { return s.images * ((s.m + rows - 1) / rows); };
  const int64_t groups = (s.n + kBlockCols - 1) / kBlockCols;
  // Each block of rows reads all of the right side: where that is large, columns are cut first.
  const int64_t cut = s.n * s.k >= kLargeSide ? groups : 1;
  while (p.rows > 16 && blocks(p.rows) * cut < kWantedTasks / 2) p.rows /= 2;
  p.row_blocks = blocks(p.rows) / s.images;
  const int64_t parts = std::clamp<int64_t>(kWantedTasks / std::max<int64_t>(1, blocks(p.rows)), 1, groups);
  p.cols = (groups + parts - 1) / parts * kBlockCols;
  p.col_blocks = (s.n + p.cols - 1) / p.cols;
  p.tasks = blocks(p.rows) * p.col_blocks;
  const int64_t ints = static_cast<int64_t>(sizeof(int32_t));
  p.scratch = static_cast<size_t>(p.rows * up(s.k, kDepth) + kDepth + p.rows * kBlockCols * ints + p.rows * ints +
                                  p.cols * ints + 3 * 64);
  return p;
}

Rounding rounding_at(Rounding r, int64_t column, int64_t at) {
  r.factor += column;
  r.bias += column;
  if (r.quick_factor != nullptr) {
    r.quick_factor += column;
    r.quick_bias += column;
    r.quick_rest += column;
  }
  if (r.added.x != nullptr) r.added.x += at;
  if (r.added.column != nullptr) r.added.column += column;
  return r;
}

namespace {
// A task's part of the result, and its memory.
struct Part {
  int64_t image, row, rows, col, cols;
  uint8_t* a;
  int32_t *c, *row_sums, *column;
};

Part part_of(const Plan& p, int64_t task, std::byte* scratch) {
  Part t{};
  // Tasks of the same columns follow each other: what they read of a large right side stays in L2.
  t.row = task % p.row_blocks * p.rows;
  t.col = task / p.row_blocks % p.col_blocks * p.cols;
  t.image = task / p.col_blocks / p.row_blocks;
  t.rows = std::min(p.rows, p.shape.m - t.row);
  t.cols = std::min(p.cols, p.shape.n - t.col);
  std::byte* at = scratch;
  const auto take = [&](int64_t bytes) {
    std::byte* const there = at;
    at += up(bytes, 64);
    return there;
  };
  const int64_t ints = static_cast<int64_t>(sizeof(int32_t));
  t.a = reinterpret_cast<uint8_t*>(take(p.rows * up(p.shape.k, kDepth)));
  t.c = reinterpret_cast<int32_t*>(take(p.rows * kBlockCols * ints));
  t.row_sums = reinterpret_cast<int32_t*>(take(p.rows * ints));
  t.column = reinterpret_cast<int32_t*>(take(p.cols * ints));
  return t;
}

// The left side's rows, where they lie or as they are made.
const uint8_t* left_side(const Plan& p, const Operands& with, const Part& t, int64_t* lda) {
  const Tiles& tiles = tiles_of(p.dot);
  const Shape& s = p.shape;
  if (!s.makes_rows && !s.row_sums && s.k % tiles.depth == 0 && t.rows % tiles.row_multiple == 0) {
    *lda = s.k;
    return with.a + t.image * with.a_step + t.row * s.k;
  }
  *lda = up(s.k, tiles.depth);
  if (s.makes_rows)
    with.make(t.image, t.row, t.rows, t.a, *lda);
  else
    for (int64_t r = 0; r < t.rows; ++r)
      std::memcpy(t.a + r * *lda, with.a + t.image * with.a_step + (t.row + r) * s.k, static_cast<size_t>(s.k));
  const Loops& loops = loops_of(p.isa);
  for (int64_t r = 0; r < t.rows; ++r) {
    std::memset(t.a + r * *lda + s.k, 0, static_cast<size_t>(*lda - s.k));
    if (s.row_sums) t.row_sums[r] = loops.total(t.a + r * *lda, s.k);
  }
  const int64_t more = std::min(p.rows, up(t.rows, tiles.row_multiple)) - t.rows;
  std::memset(t.a + t.rows * *lda, 0, static_cast<size_t>(more * *lda));
  return t.a;
}

}  // namespace

void finish_block(const Behind& where, const Operands& with, const Correction& by, const Block& block) {
  const Loops& loops = loops_of(where.isa);
  if (where.to == To::kSums) return loops.sums(block, by);
  if (where.to != To::kFloats) return loops.to_bytes(block, by, rounding_at(with.rounding, where.column, where.at));
  loops.floats(block, by);
  if (with.epilogue->count > 0)
    tile_table(where.isa).post(static_cast<float*>(block.y), block.ldy, block.rows, block.cols, with.epilogue->ops,
                               with.epilogue->count, where.row, where.column);
}

void run_task(const Plan& p, const Operands& with, int64_t task, std::byte* scratch) {
  const Shape& s = p.shape;
  const Part t = part_of(p, task, scratch);
  const std::byte* const b = with.b + t.image * with.b_step;
  const int32_t* const sums = column_sums(b, s.k, s.n) + t.col;
  const uint32_t zero = static_cast<uint32_t>(with.a_zero);
  for (int64_t j = 0; j < t.cols; ++j) {
    const uint32_t w = s.row_sums ? static_cast<uint32_t>(with.b_zero[t.image * with.column_step + t.col + j]) : 0;
    t.column[j] = static_cast<int32_t>(zero * (static_cast<uint32_t>(s.k) * w - static_cast<uint32_t>(sums[j])));
  }
  TileArgs tile;
  tile.a = left_side(p, with, t, &tile.lda);
  tile.rows = t.rows;
  tile.panel_bytes = panel_bytes(s.k);
  tile.k = s.k;
  tile.c = t.c;
  const int64_t size = s.to == To::kSums || s.to == To::kFloats ? 4 : 1;
  for (int64_t col = t.col; col < t.col + t.cols; col += kBlockCols) {
    const int64_t cols = std::min(kBlockCols, t.col + t.cols - col);
    tile.b = reinterpret_cast<const int8_t*>(b) + col / kPanel * tile.panel_bytes;
    tile.panels = panels_of(cols);
    tiles_of(p.dot).run(tile);
    const int64_t at = t.image * with.y_step + t.row * with.ldy + col;
    const int64_t column = t.image * with.column_step + col;
    const Correction by = {t.column + (col - t.col), s.row_sums ? with.b_zero + column : nullptr, t.row_sums};
    finish_block({p.isa, s.to, column, at, t.row}, with, by,
                 {t.c, t.rows, cols, static_cast<std::byte*>(with.y) + at * size, with.ldy});
  }
}

}  // namespace peri::kernels::cpu::integer
