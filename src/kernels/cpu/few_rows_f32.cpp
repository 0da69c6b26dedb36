// Kernel few_rows_f32: products of up to four rows with a non-constant matrix, which is read once and never packed.
#include <immintrin.h>

#include <algorithm>

#include "kernels/cpu/gemm/product.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
constexpr int64_t kColumns = 64;  // of the result, a task: eight vectors of sums of one row in 16 registers
constexpr int64_t kRows = 4;      // of two sums each, eight too

struct Shape {
  int64_t rows = 1, depth = 1, columns = 1;
};

Result<Shape> read(const Problem& p) {
  PERI_ASSIGN(const Product s, read_product(p));
  if (!s.epilogue.ops.empty() || p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (s.shape.batch != 1 || s.shape.b_form != cpu::BForm::kRowMajor || p.anchor().op != "matmul")
    return refused("takes a matmul with a matrix of a run only");
  if (s.shape.m > kRows) return refused("more than %lld rows", static_cast<long long>(kRows));
  if (s.shape.k < 1) return refused("an empty sum");
  return Shape{s.shape.m, s.shape.k, s.shape.n};
}

// Columns [0, 64) of `kCount` rows, two sums of each by turns.
template <int kCount>
[[gnu::target("avx2,fma")]] void whole(const Shape& s, const float* a, const float* b, float* y) {
  for (int64_t c = 0; c < kColumns; c += 16) {
    __m256 low[kCount], high[kCount];
    for (int r = 0; r < kCount; ++r) low[r] = high[r] = _mm256_setzero_ps();
    for (int64_t k = 0; k < s.depth; ++k) {
      const __m256 first = _mm256_loadu_ps(b + k * s.columns + c), second = _mm256_loadu_ps(b + k * s.columns + c + 8);
      for (int r = 0; r < kCount; ++r) {
        const __m256 by = _mm256_broadcast_ss(a + r * s.depth + k);
        low[r] = _mm256_fmadd_ps(by, first, low[r]);
        high[r] = _mm256_fmadd_ps(by, second, high[r]);
      }
    }
    for (int r = 0; r < kCount; ++r) {
      _mm256_storeu_ps(y + r * s.columns + c, low[r]);
      _mm256_storeu_ps(y + r * s.columns + c + 8, high[r]);
    }
  }
}

// One row: all 64 columns at once, so that memory is read in order.
[[gnu::target("avx2,fma")]] void whole_of_one(const Shape& s, const float* a, const float* b, float* y) {
  __m256 sums[8];
  for (__m256& v : sums) v = _mm256_setzero_ps();
  for (int64_t k = 0; k < s.depth; ++k) {
    const __m256 by = _mm256_broadcast_ss(a + k);
    for (int c = 0; c < 8; ++c) sums[c] = _mm256_fmadd_ps(by, _mm256_loadu_ps(b + k * s.columns + 8 * c), sums[c]);
  }
  for (int c = 0; c < 8; ++c) _mm256_storeu_ps(y + 8 * c, sums[c]);
}

void run_task(const Shape& s, const float* a, const float* b, float* y, int64_t task) {
  const int64_t first = task * kColumns, count = std::min(kColumns, s.columns - first);
  if (count == kColumns) {
    constexpr decltype(&whole<1>) kWhole[] = {whole_of_one, whole<2>, whole<3>, whole<4>};
    return kWhole[s.rows - 1](s, a, b + first, y + first);
  }
  for (int64_t r = 0; r < s.rows; ++r) {
    float sums[kColumns] = {};
    for (int64_t k = 0; k < s.depth; ++k)
      for (int64_t c = 0; c < count; ++c) sums[c] += a[r * s.depth + k] * b[k * s.columns + first + c];
    std::copy_n(sums, count, y + r * s.columns + first);
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_TRY(cpu::best_isa(*c.target));
  PERI_ASSIGN(const Shape s, read(p));
  const Source a = Source::of(p, p.anchor().in(0), c.constants), b = Source::of(p, p.anchor().in(1), c.constants);
  if (!a.known() || !b.known()) return refused("reads a value made inside the region");
  return TaskInstance::make((s.columns + kColumns - 1) / kColumns, 0, [s, a, b](int64_t task, const Args& args) {
    run_task(s, a.f32(args), b.f32(args), static_cast<float*>(args.out[0]), task);
  });
}
}  // namespace

extern const Entry few_rows_f32_entry;
const Entry few_rows_f32_entry{{
    .name = "few_rows_f32",
    .version = 1,
    .provider = "peri",
    .takes = "products of up to four rows with a matrix that is not a constant",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[2,700]; input w: f32[700,64]; y = matmul(x, w); output y }",
                "graph { input x: f32[4,33]; input w: f32[33,200]; y = matmul(x, w); output y }",
                "graph { input x: f32[70]; input w: f32[70,64]; y = matmul(x, w); output y }",
                "graph { input x: f32[1,90]; input w: f32[90,150]; y = matmul(x, w); output y }",
                "graph { input x: f32[3,90]; input w: f32[90,130]; y = matmul(x, w); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
