// Kernel norm_groups_f32: GroupNorm and InstanceNorm of f32 images, and lines along an axis divided by their norm.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/rows/rows.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
namespace rows = cpu::rows;

Status check(const Problem& p) {
  if (p.graph->nodes.back() != &p.anchor()) return refused("takes no epilogue");
  for (const ir::Value* v : p.anchor().inputs)
    if (v && v->type.dtype != DType::kF32) return refused("takes f32 only");
  if (p.anchor().out()->type.dtype != DType::kF32) return refused("takes f32 only");
  return Ok{};
}

Result<rows::GroupNormShape> read_groups(const Problem& p) {
  const ir::Node& n = p.anchor();
  PERI_TRY(check(p));
  const std::vector<int64_t> d = dims_of(*n.in(0));
  if (d.size() < 2) return refused("an image without channels");
  rows::GroupNormShape s;
  s.batch = d[0];
  s.channels = d[1];
  for (size_t k = 2; k < d.size(); ++k) s.spatial *= d[k];
  s.groups = n.op == "group_normalization" ? n.i("num_groups") : s.channels;
  s.epsilon = static_cast<float>(n.f("epsilon", 1e-5));
  if (s.batch * s.channels * s.spatial == 0 || s.groups < 1) return refused("an empty tensor");
  return s;
}

// [outer, axis, inner], p of the norm.
struct Lines {
  int64_t outer = 1, axis = 1, inner = 1;
  bool square = true;
};
// Measured: benchmarks/results/2026-11-22_constants_more.md.
constexpr int64_t kColumns = 256, kTaskElements = 1 << 14;

Result<Lines> read_lines(const Problem& p) {
  const ir::Node& n = p.anchor();
  PERI_TRY(check(p));
  const std::vector<int64_t> d = dims_of(*n.in(0));
  int64_t axis = n.i("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(d.size());
  if (axis < 0 || axis >= static_cast<int64_t>(d.size())) return refused("a bad axis");
  Lines s;
  for (int64_t k = 0; k < static_cast<int64_t>(d.size()); ++k)
    (k < axis ? s.outer : k == axis ? s.axis : s.inner) *= d[static_cast<size_t>(k)];
  if (s.outer * s.axis * s.inner == 0) return refused("an empty tensor");
  s.square = n.i("p", 2) == 2;
  return s;
}

float divisor(float norm) { return norm == 0 ? 1 : norm; }

// `count` neighbouring lines whose elements are `inner` apart.
void divide_columns(const Lines& s, const float* x, float* y, int64_t count) {
  float sum[kColumns] = {};
  for (int64_t k = 0; k < s.axis; ++k)
    for (int64_t c = 0; c < count; ++c) {
      const float v = x[k * s.inner + c];
      sum[c] += s.square ? v * v : std::fabs(v);
    }
  for (int64_t c = 0; c < count; ++c) sum[c] = divisor(s.square ? std::sqrt(sum[c]) : sum[c]);
  for (int64_t k = 0; k < s.axis; ++k)
    for (int64_t c = 0; c < count; ++c) y[k * s.inner + c] = x[k * s.inner + c] / sum[c];
}
template <bool kSquare>
void divide_line(const Lines& s, const float* __restrict x, float* __restrict y) {
  constexpr int64_t kLanes = 32;  // four vectors of sums: an addition takes four cycles, and another begins in each
  const auto term = [](float v) { return kSquare ? v * v : std::fabs(v); };
  float lanes[kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= s.axis; k += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += term(x[k + l]);
  float sum = 0;
  for (; k < s.axis; ++k) sum += term(x[k]);
  for (float v : lanes) sum += v;
  const float by = divisor(kSquare ? std::sqrt(sum) : sum);
  for (k = 0; k < s.axis; ++k) y[k] = x[k] / by;
}

void divide(const Lines& s, const float* x, float* y, int64_t task) {
  if (s.inner == 1) {
    const int64_t each = std::max<int64_t>(1, kTaskElements / s.axis), end = std::min(s.outer, (task + 1) * each);
    const auto line = s.square ? divide_line<true> : divide_line<false>;
    for (int64_t o = task * each; o < end; ++o) line(s, x + o * s.axis, y + o * s.axis);
    return;
  }
  const int64_t blocks = (s.inner + kColumns - 1) / kColumns, c = task % blocks * kColumns,
                at = task / blocks * s.axis * s.inner + c;
  divide_columns(s, x + at, y + at, std::min(kColumns, s.inner - c));
}
int64_t task_count(const Lines& s) {
  const int64_t each = std::max<int64_t>(1, kTaskElements / s.axis);
  return s.inner == 1 ? (s.outer + each - 1) / each : s.outer * ((s.inner + kColumns - 1) / kColumns);
}

bool is_groups(const ir::Node& n) { return n.op == "group_normalization" || n.op == "instance_normalization"; }

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const auto isa, cpu::best_isa(target));
  if (is_groups(p.anchor())) {
    PERI_ASSIGN(const rows::GroupNormShape s, read_groups(p));
    PERI_TRY(rows::make_plan(s, isa));
  } else if (p.anchor().op == "lp_normalization") {
    PERI_TRY(read_lines(p));
  } else {
    return refused("not a normalisation of groups or lines");
  }
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  const ir::Node& n = p.anchor();
  const Source x = Source::of(p, n.in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  if (n.op == "lp_normalization") {
    PERI_ASSIGN(const Lines s, read_lines(p));
    return TaskInstance::make(task_count(s), 0, [s, x](int64_t task, const Args& args) {
      divide(s, x.f32(args), static_cast<float*>(args.out[0]), task);
    });
  }
  if (!is_groups(n)) return refused("not a normalisation of groups or lines");
  PERI_ASSIGN(const rows::GroupNormShape shape, read_groups(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  PERI_ASSIGN(const rows::GroupNormPlan plan, rows::make_plan(shape, isa));
  const Source scale = Source::of(p, n.in(1), c.constants), bias = Source::of(p, n.in(2), c.constants);
  if (!scale.known() || !bias.known()) return refused("reads a value made inside the region");
  return TaskInstance::make(rows::task_count(plan), 0, [=](int64_t task, const Args& args) {
    rows::run_task(plan, {x.f32(args), scale.f32(args), bias.f32(args), static_cast<float*>(args.out[0])}, task);
  });
}
}  // namespace

extern const Entry norm_groups_f32_entry;
const Entry norm_groups_f32_entry{{
    .name = "norm_groups_f32",
    .version = 1,
    .provider = "peri",
    .takes = "GroupNorm, InstanceNorm and LpNormalization of f32",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[3,70,130]; y = lp_normalization(x) {axis=1}; output y }",
         "graph { input x: f32[2,12,9,33]; const s: f32[12] = seeded(0.5, 1); const b: f32[12] = seeded(0.5, 2); "
         "y = group_normalization(x, s, b) {num_groups=3}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
