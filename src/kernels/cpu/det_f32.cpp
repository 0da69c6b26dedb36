// Kernel det_f32: determinants of matrices of f32, by elimination with partial pivoting in float64.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
constexpr int64_t kTaskElements = 1 << 13, kMaxSide = 1024;

struct Shape {
  int64_t count = 1, side = 1;
  int64_t per_task() const { return std::max<int64_t>(1, kTaskElements / (side * side)); }
  int64_t tasks() const { return (count + per_task() - 1) / per_task(); }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "det") return refused("not a determinant");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  Shape s;
  s.side = d.back();
  for (size_t k = 0; k + 2 < d.size(); ++k) s.count *= d[k];
  if (s.count == 0 || s.side == 0 || s.side > kMaxSide) return refused("empty or very large matrices");
  return s;
}

double determinant(double* a, int64_t m) {
  double det = 1;
  for (int64_t k = 0; k < m; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < m; ++i)
      if (std::fabs(a[i * m + k]) > std::fabs(a[pivot * m + k])) pivot = i;
    if (pivot != k) {
      std::swap_ranges(a + k * m + k, a + (k + 1) * m, a + pivot * m + k);
      det = -det;
    }
    det *= a[k * m + k];
    if (a[k * m + k] == 0) return det;  // 0, or NaN once there is one
    for (int64_t i = k + 1; i < m; ++i) {
      const double factor = a[i * m + k] / a[k * m + k];
      for (int64_t j = k; j < m; ++j) a[i * m + j] -= factor * a[k * m + j];
    }
  }
  return det;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  const auto scratch = static_cast<size_t>(s.side * s.side) * sizeof(double);
  return TaskInstance::make(s.tasks(), scratch, [s, x](int64_t task, const Args& args) {
    auto* const a = reinterpret_cast<double*>(args.scratch);
    const int64_t each = s.side * s.side, end = std::min(s.count, (task + 1) * s.per_task());
    for (int64_t k = task * s.per_task(); k < end; ++k) {
      std::copy_n(x.f32(args) + k * each, each, a);
      static_cast<float*>(args.out[0])[k] = static_cast<float>(determinant(a, s.side));
    }
  });
}
}  // namespace

extern const Entry det_f32_entry;
const Entry det_f32_entry{{
    .name = "det_f32",
    .version = 1,
    .provider = "peri",
    .takes = "determinants of matrices of f32",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[5,7,4,4]; y = det(x); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
