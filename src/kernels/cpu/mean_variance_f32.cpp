// Kernel mean_variance_f32: MeanVarianceNormalization of f32 whose axes precede the others, follow them, or both.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/task_instance.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::kernels {
namespace {
constexpr float kEpsilon = 1e-9F;  // of the definition

// [parts][sets][each]: set s is its `each` elements in all parts.
struct Sets {
  int64_t parts = 1, sets = 1, each = 1;
};

Result<Sets> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "mean_variance_normalization") return refused("not a mean_variance_normalization");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  PERI_ASSIGN(const std::vector<int64_t> axes, ops::normalize_axes(n.ints("axes", {0, 2, 3}), d.size()));
  Sets s;
  int where = 0;  // in the parts, the sets, the elements
  for (size_t k = 0; k < d.size(); ++k) {
    if (d[k] == 0) return refused("an empty tensor");
    if (d[k] == 1) continue;
    const bool gone = std::find(axes.begin(), axes.end(), static_cast<int64_t>(k)) != axes.end();
    if (!gone && where == 2) return refused("axes between those that stay");
    if (!gone) where = 1;
    if (gone && where == 1) where = 2;
    (!gone ? s.sets : where == 0 ? s.parts : s.each) *= d[k];
  }
  if (s.sets == 1) return Sets{1, 1, s.parts * s.each};
  return s;
}

constexpr int64_t kLanes = 32;  // four vectors of sums: an addition takes four cycles, and another begins in each
float sum_of(const float* x, int64_t n) {
  float lanes[kLanes] = {}, sum = 0;
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += x[k + l];
  for (; k < n; ++k) sum += x[k];
  for (const float v : lanes) sum += v;
  return sum;
}
float square_of(const float* x, int64_t n, float mean) {
  float lanes[kLanes] = {}, sum = 0;
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += (x[k + l] - mean) * (x[k + l] - mean);
  for (; k < n; ++k) sum += (x[k] - mean) * (x[k] - mean);
  for (const float v : lanes) sum += v;
  return sum;
}

// Sums of parts in float64; of a part, runs that float32 sums well.
constexpr int64_t kRun = 4096;
template <class F>
double over(const Sets& s, const float* x, const F& run) {
  double sum = 0;
  for (int64_t p = 0; p < s.parts; ++p)
    for (int64_t at = 0; at < s.each; at += kRun)
      sum += static_cast<double>(run(x + p * s.sets * s.each + at, std::min(kRun, s.each - at)));
  return sum;
}

void normalise(const Sets& s, const float* x, float* y) {
  const double count = static_cast<double>(s.parts * s.each);
  const float mean = static_cast<float>(over(s, x, sum_of) / count);
  const double variance = over(s, x, [&](const float* at, int64_t n) { return square_of(at, n, mean); }) / count;
  const float by = 1 / (static_cast<float>(std::sqrt(variance)) + kEpsilon);
  for (int64_t p = 0; p < s.parts; ++p) {
    const int64_t at = p * s.sets * s.each;
    for (int64_t k = 0; k < s.each; ++k) y[at + k] = (x[at + k] - mean) * by;
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Sets s, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  return TaskInstance::make(s.sets, 0, [s, x](int64_t task, const Args& args) {
    normalise(s, x.f32(args) + task * s.each, static_cast<float*>(args.out[0]) + task * s.each);
  });
}
}  // namespace

extern const Entry mean_variance_f32_entry;
const Entry mean_variance_f32_entry{{
    .name = "mean_variance_f32",
    .version = 1,
    .provider = "peri",
    .takes = "MeanVarianceNormalization of f32 over axes in front of and behind those that stay",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[2,5,9,33]; y = mean_variance_normalization(x); output y }",
                "graph { input x: f32[3,4,70]; y = mean_variance_normalization(x) {axes=[-1]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
