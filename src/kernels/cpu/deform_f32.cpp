// Kernel deform_f32: deformable convolution of images of f32. Of a run of places of the result the taps are
// sampled once for each set of offsets, for all its channels, and multiplied with the weights while they are in cache.
#include <immintrin.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "ops/shape/window.hpp"

namespace peri::kernels {
namespace {
constexpr int64_t kPlaces = 64;  // of the result, a task

struct Shape {
  int64_t batch = 1, channels = 1, height = 1, width = 1, outputs = 1, out_height = 1, out_width = 1, groups = 1,
          offsets = 1;
  ops::Window window;
  int64_t taps() const { return window.kernel[0] * window.kernel[1]; }
  int64_t depth() const { return channels / groups * taps(); }
  int64_t blocks() const { return (out_height * out_width + kPlaces - 1) / kPlaces; }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "deform_conv") return refused("not a deformable convolution");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  if (x.size() != 4) return refused("takes images only");
  Shape s;
  s.batch = x[0];
  s.channels = x[1];
  s.height = x[2];
  s.width = x[3];
  s.outputs = y[1];
  s.out_height = y[2];
  s.out_width = y[3];
  s.groups = n.i("group", 1);
  s.offsets = n.i("offset_group", 1);
  s.window = ops::window_of(n);
  if (s.batch * s.channels * s.height * s.width * s.outputs * s.out_height * s.out_width == 0)
    return refused("an empty tensor");
  if (s.height * s.width >= int64_t{1} << 30) return refused("too large an image");
  return s;
}

struct Data {
  const float *x, *w, *offset, *bias, *mask;
  float* y;
};

// Four corners of each place and what they count: -1 and nothing outside of the image.
struct Corners {
  int32_t at[4][kPlaces];
  float by[4][kPlaces];
};

// Of one tap of one set of offsets, at `count` places from `first`.
[[gnu::target("avx2,fma")]] void find_corners(const Shape& s, const Data& d, int64_t n, int64_t set, int64_t tap,
                                              int64_t first, int64_t count, Corners* out) {
  const int64_t image = s.out_height * s.out_width, row = (n * s.offsets + set) * s.taps() + tap,
                i = tap / s.window.kernel[1], j = tap % s.window.kernel[1];
  const float *const dy = d.offset + row * 2 * image + first, *const dx = dy + image,
                     *const mask = d.mask ? d.mask + row * image + first : nullptr;
  for (int64_t p = 0; p < count; ++p) {
    const int64_t oy = (first + p) / s.out_width, ox = (first + p) % s.out_width;
    const float y = static_cast<float>(ops::window_at(s.window, 0, oy, i)) + dy[p],
                x = static_cast<float>(ops::window_at(s.window, 1, ox, j)) + dx[p], by = mask ? mask[p] : 1.0F;
    const bool inside = y > -1 && x > -1 && y < static_cast<float>(s.height) && x < static_cast<float>(s.width);
    const float fy = inside ? std::floor(y) : 0, fx = inside ? std::floor(x) : 0, ty = y - fy, tx = x - fx;
    const auto y0 = static_cast<int64_t>(fy), x0 = static_cast<int64_t>(fx);
    for (int c = 0; c < 4; ++c) {
      const int64_t cy = y0 + c / 2, cx = x0 + c % 2;
      const bool counts = inside && cy >= 0 && cx >= 0 && cy < s.height && cx < s.width;
      out->at[c][p] = counts ? static_cast<int32_t>(cy * s.width + cx) : -1;
      out->by[c][p] = counts ? (c / 2 ? ty : 1 - ty) * (c % 2 ? tx : 1 - tx) * by : 0;
    }
  }
  for (int c = 0; c < 4; ++c) {
    std::fill(out->at[c] + count, out->at[c] + kPlaces, -1);
    std::fill(out->by[c] + count, out->by[c] + kPlaces, 0.0F);
  }
}

[[gnu::target("avx2,fma")]] void sample(const float* x, const Corners& c, float* to) {
  for (int64_t p = 0; p < kPlaces; p += 8) {
    __m256 sum = _mm256_setzero_ps();
    for (int k = 0; k < 4; ++k) {
      const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(c.at[k] + p));
      const __m256 there = _mm256_castsi256_ps(_mm256_cmpgt_epi32(at, _mm256_set1_epi32(-1)));
      const __m256 v = _mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, at, there, 4);
      sum = _mm256_fmadd_ps(v, _mm256_loadu_ps(c.by[k] + p), sum);
    }
    _mm256_storeu_ps(to + p, sum);
  }
}

// kRows rows of w times the columns, kPlaces wide: y[r][p] = bias[r] + sum of w[r][k] columns[k][p].
template <int kRows>
[[gnu::target("avx2,fma")]] void multiply(const float* w, int64_t depth, const float* columns, const float* bias,
                                          float* y, int64_t step, int64_t count) {
  for (int64_t p = 0; p < count; p += 16) {
    __m256 low[kRows], high[kRows];
    for (int r = 0; r < kRows; ++r) low[r] = high[r] = _mm256_set1_ps(bias ? bias[r] : 0.0F);
    for (int64_t k = 0; k < depth; ++k) {
      const __m256 a = _mm256_loadu_ps(columns + k * kPlaces + p), b = _mm256_loadu_ps(columns + k * kPlaces + p + 8);
      for (int r = 0; r < kRows; ++r) {
        const __m256 by = _mm256_broadcast_ss(w + r * depth + k);
        low[r] = _mm256_fmadd_ps(by, a, low[r]);
        high[r] = _mm256_fmadd_ps(by, b, high[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float made[16];
      _mm256_storeu_ps(made, low[r]);
      _mm256_storeu_ps(made + 8, high[r]);
      std::copy_n(made, std::min<int64_t>(16, count - p), y + r * step + p);
    }
  }
}

void run_task(const Shape& s, const Data& d, int64_t task, float* columns) {
  const int64_t image = s.out_height * s.out_width, n = task / s.blocks(), first = task % s.blocks() * kPlaces,
                count = std::min(kPlaces, image - first), per_set = s.channels / s.offsets, taps = s.taps(),
                depth = s.depth(), per_group = s.outputs / s.groups;
  Corners corners;
  for (int64_t set = 0; set < s.offsets; ++set)
    for (int64_t tap = 0; tap < taps; ++tap) {
      find_corners(s, d, n, set, tap, first, count, &corners);
      for (int64_t c = set * per_set; c < (set + 1) * per_set; ++c)
        sample(d.x + (n * s.channels + c) * s.height * s.width, corners, columns + (c * taps + tap) * kPlaces);
    }
  for (int64_t g = 0; g < s.groups; ++g) {
    const float* const own = columns + g * depth * kPlaces;
    for (int64_t o = g * per_group, end = o + per_group; o < end;) {
      const float* const bias = d.bias ? d.bias + o : nullptr;
      float* const y = d.y + (n * s.outputs + o) * image + first;
      const bool many = end - o >= 6;
      (many ? multiply<6> : multiply<1>)(d.w + o * depth, depth, own, bias, y, image, count);
      o += many ? 6 : 1;
    }
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
  const ir::Node& n = p.anchor();
  std::vector<Source> from;
  for (size_t k = 0; k < 5; ++k) {
    from.push_back(Source::of(p, n.in(k), c.constants));
    if (n.in(k) && !from.back().known()) return refused("reads a value made inside the region");
  }
  const auto scratch = static_cast<size_t>(s.channels * s.taps() * kPlaces) * sizeof(float);
  return TaskInstance::make(s.batch * s.blocks(), scratch, [s, from](int64_t task, const Args& args) {
    const Data d = {from[0].f32(args), from[1].f32(args), from[2].f32(args),
                    from[3].f32(args), from[4].f32(args), static_cast<float*>(args.out[0])};
    run_task(s, d, task, reinterpret_cast<float*>(args.scratch));
  });
}
}  // namespace

extern const Entry deform_f32_entry;
const Entry deform_f32_entry{{
    .name = "deform_f32",
    .version = 1,
    .provider = "peri",
    .takes = "deformable convolutions of images of f32, with groups, sets of offsets and masks",
    .offer = offer,
    .instantiate = instantiate,
    .samples = {"graph { input x: f32[1,3,20,21]; input w: f32[5,3,3,3]; input o: f32[1,18,18,19]; y = deform_conv(x, "
                "w, o); output y }",
                "graph { input x: f32[2,6,9,11]; const w: f32[14,3,3,2] = seeded(0.3, 1); input o: f32[2,36,9,10]; "
                "const b: f32[14] = seeded(0.3, 2); input m: f32[2,18,9,10]; y = deform_conv(x, w, o, b, m) {group=2, "
                "offset_group=3, pads=[1, 0, 1, 0]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
