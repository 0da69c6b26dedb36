// Kernel affine_grid_f32: the positions to which an affine matrix maps the elements of an image or a volume, row by
// row.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
constexpr int64_t kTaskElements = 1 << 13;

struct Shape {
  int64_t batch = 1, depth = 1, height = 1, width = 1, rank = 2;
  bool align = false;
  int64_t lines() const { return batch * depth * height; }
  int64_t lines_per_task() const { return std::max<int64_t>(1, kTaskElements / (width * rank)); }
  int64_t tasks() const { return (lines() + lines_per_task() - 1) / lines_per_task(); }
  double place(int64_t at, int64_t extent) const {
    if (align) return extent == 1 ? -1 : -1 + 2.0 * static_cast<double>(at) / static_cast<double>(extent - 1);
    return -1 + (2.0 * static_cast<double>(at) + 1) / static_cast<double>(extent);
  }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "affine_grid") return refused("not an affine grid");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> d = dims_of(*n.out());
  Shape s;
  s.rank = static_cast<int64_t>(d.size()) - 2;
  s.batch = d[0];
  s.depth = s.rank == 3 ? d[1] : 1;
  s.height = d[d.size() - 3];
  s.width = d[d.size() - 2];
  s.align = n.i("align_corners", 0) != 0;
  if (s.lines() * s.width == 0) return refused("an empty result");
  const ops::InferContext context{n, {}, {}, nullptr};
  PERI_ASSIGN(const std::vector<int64_t> size, context.constants(1, "size"));
  if (size.empty() || size[0] != s.batch) return refused("size names another batch");
  return s;
}

template <int kRank>
void run_line(const Shape& s, const float* theta, const float* across, int64_t line, float* y) {
  const double down = s.place(line % s.height, s.height),
               deep = kRank == 3 ? s.place(line / s.height % s.depth, s.depth) : 0;
  float by[kRank], base[kRank];
  for (int r = 0; r < kRank; ++r) {
    const float* const t = theta + r * (kRank + 1);
    by[r] = t[0];
    base[r] = static_cast<float>(t[1] * down + (kRank == 3 ? t[2] * deep : 0) + t[kRank]);
  }
  for (int64_t k = 0; k < s.width; ++k)
    for (int r = 0; r < kRank; ++r) y[k * kRank + r] = by[r] * across[k] + base[r];
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const Source theta = Source::of(p, p.anchor().in(0), c.constants);
  if (!theta.known()) return refused("reads a value made inside the region");
  std::vector<float> across(static_cast<size_t>(s.width));
  for (int64_t k = 0; k < s.width; ++k) across[static_cast<size_t>(k)] = static_cast<float>(s.place(k, s.width));
  return TaskInstance::make(s.tasks(), 0, [s, theta, across](int64_t task, const Args& args) {
    const int64_t begin = task * s.lines_per_task(), end = std::min(s.lines(), begin + s.lines_per_task());
    for (int64_t line = begin; line < end; ++line)
      (s.rank == 3 ? run_line<3>
                   : run_line<2>)(s, theta.f32(args) + line / (s.depth * s.height) * s.rank * (s.rank + 1),
                                  across.data(), line, static_cast<float*>(args.out[0]) + line * s.width * s.rank);
  });
}
}  // namespace

extern const Entry affine_grid_f32_entry;
const Entry affine_grid_f32_entry{{
    .name = "affine_grid_f32",
    .version = 1,
    .provider = "peri",
    .takes = "affine grids of f32 of a known size",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input t: f32[2,2,3]; const s: i64[4] = [2, 3, 70, 90]; y = affine_grid(t, s); output y }",
                "graph { input t: f32[1,3,4]; const s: i64[5] = [1, 1, 5, 30, 40]; y = affine_grid(t, s) "
                "{align_corners=1}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
