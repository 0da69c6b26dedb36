// Kernel max_roi_pool_f32: the largest element of each bin of regions of interest: first over the rows of a bin, per
// column, then over the columns.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/indexed.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_tasks.md.
constexpr int64_t kChannels = 16;  // of one region, a task

struct Shape {
  int64_t batch = 1, channels = 1, height = 1, width = 1, rois = 1, bins_y = 1, bins_x = 1;
  double scale = 1;
  int64_t parts() const { return (channels + kChannels - 1) / kChannels; }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "max_roi_pool") return refused("not a max_roi_pool");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  Shape s = {x[0], x[1], x[2], x[3], y[0], y[2], y[3], n.f("spatial_scale", 1)};
  if (s.batch * s.channels * s.height * s.width * s.rois * s.bins_y * s.bins_x == 0) return refused("an empty tensor");
  if (s.bins_y > 1 << 12 || s.bins_x > 1 << 12) return refused("very many bins");
  return s;
}

struct Range {
  int64_t begin, end;
};
Range bin_range(float from, float to, int64_t bin, int64_t bins, int64_t extent) {
  const double start = std::round(static_cast<double>(from)),
               length = std::max(std::round(static_cast<double>(to)) - start + 1, 1.0);
  const float size = static_cast<float>(length) / static_cast<float>(bins);
  const double n = static_cast<double>(extent);
  const double low = std::clamp(static_cast<double>(std::floor(static_cast<float>(bin) * size)) + start, 0.0, n),
               high = std::clamp(static_cast<double>(std::ceil(static_cast<float>(bin + 1) * size)) + start, 0.0, n);
  return {static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

// NaN is the largest.
float larger(float a, float b) { return ((b > a) | (b != b)) ? b : a; }

// `ranges`: room for those of all bins, of rows first.
bool run_task(const Shape& s, const float* x, const float* rois, float* y, float* line, Range* ranges, int64_t task) {
  const int64_t roi = task / s.parts(), first = task % s.parts() * kChannels,
                end = std::min(s.channels, first + kChannels);
  const float* const r = rois + roi * 5;
  float at[4];
  for (int k = 0; k < 4; ++k) at[k] = static_cast<float>(static_cast<double>(r[k + 1]) * s.scale);
  if (!(r[0] >= 0 && r[0] < static_cast<float>(s.batch)) || !std::isfinite(at[0] + at[1] + at[2] + at[3])) return false;
  Range* const across = ranges + s.bins_y;
  for (int64_t i = 0; i < s.bins_y; ++i) ranges[i] = bin_range(at[1], at[3], i, s.bins_y, s.height);
  for (int64_t j = 0; j < s.bins_x; ++j) across[j] = bin_range(at[0], at[2], j, s.bins_x, s.width);
  const int64_t left = across[0].begin, right = across[s.bins_x - 1].end;
  for (int64_t c = first; c < end; ++c) {
    const float* const plane = x + (static_cast<int64_t>(r[0]) * s.channels + c) * s.height * s.width;
    float* to = y + (roi * s.channels + c) * s.bins_y * s.bins_x;
    for (int64_t i = 0; i < s.bins_y; ++i, to += s.bins_x) {
      const Range rows = ranges[i];
      if (rows.begin >= rows.end || left >= right) {
        std::fill_n(to, s.bins_x, 0.0F);
        continue;
      }
      std::copy(plane + rows.begin * s.width + left, plane + rows.begin * s.width + right, line + left);
      for (int64_t row = rows.begin + 1; row < rows.end; ++row) {
        const float* __restrict own = plane + row * s.width;
        for (int64_t j = left; j < right; ++j) line[j] = larger(line[j], own[j]);
      }
      for (int64_t j = 0; j < s.bins_x; ++j) {
        const Range columns = across[j];
        float best = columns.begin < columns.end ? line[columns.begin] : 0;
        for (int64_t k = columns.begin + 1; k < columns.end; ++k) best = larger(best, line[k]);
        to[j] = best;
      }
    }
  }
  return true;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants), rois = Source::of(p, p.anchor().in(1), c.constants);
  if (!x.known() || !rois.known()) return refused("reads a value made inside the region");
  const size_t room = static_cast<size_t>(s.bins_y + s.bins_x) * sizeof(Range);
  const auto run = [=](int64_t task, const Args& args) {
    return run_task(s, x.f32(args), rois.f32(args), static_cast<float*>(args.out[0]),
                    reinterpret_cast<float*>(args.scratch + room), reinterpret_cast<Range*>(args.scratch), task);
  };
  return IndexedInstance::make(
      {{s.rois * s.parts(), run}},
      format("a region of a batch in [0, %lld), of finite numbers", static_cast<long long>(s.batch)), -1,
      room + static_cast<size_t>(s.width) * sizeof(float));
}
}  // namespace

extern const Entry max_roi_pool_f32_entry;
const Entry max_roi_pool_f32_entry{{
    .name = "max_roi_pool_f32",
    .version = 1,
    .provider = "peri",
    .takes = "max_roi_pool of f32",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[1,40,9,9]; const r: f32[1,5] = [0.0, 0.0, 0.0, 8.0, 8.0]; y = max_roi_pool(x, "
                "r) {pooled_shape=[3,3]}; output y }",
                "graph { input x: f32[3,2,5,70]; const r: f32[2,5] = [2.0, 8.0, 0.0, 120.0, 6.0, 0.0, 4.0, 4.0, 4.0, "
                "4.0]; y = max_roi_pool(x, r) {pooled_shape=[1,9], spatial_scale=0.5}; output y }",
                "graph { input x: f32[2,19,30,41]; const r: f32[3,5] = [0.0, 1.0, 2.0, 30.0, 25.0, 1.0, 6.0, 6.0, "
                "20.0, 9.0, 1.0, -4.0, 3.0, 50.0, 60.0]; y = max_roi_pool(x, r) {pooled_shape=[7,5]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
