// Kernel deform_f32: deformable convolution of images of f32. The image is turned to channels last once a run, so that
// a sample is four runs of neighbours; a few places' samples are multiplied with the weights while they are in cache.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "ops/shape/window.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_tasks.md.
constexpr int64_t kPlaces = 48;  // of the result, a task: a multiple of kTile
constexpr int64_t kTile = 6;     // places whose sums are registers together, of kOutputs each
constexpr int64_t kOutputs = 16;
constexpr int64_t kPixels = 64;  // of an image, a task that turns it: a part that stays in L1

struct Shape {
  int64_t batch = 1, channels = 1, height = 1, width = 1, outputs = 1, out_height = 1, out_width = 1, groups = 1,
          offsets = 1;
  ops::Window window;
  int64_t taps() const { return window.kernel[0] * window.kernel[1]; }
  int64_t depth() const { return channels / groups * taps(); }
  // Channels of a pixel or sample with what vectors of eight write behind the last set.
  int64_t row() const {
    return offsets == 1 || channels / offsets % 8 == 0 ? (channels + 7) / 8 * 8 : (channels + 14) / 8 * 8;
  }
  int64_t pixels() const { return height * width; }
  // Turned images, each with a pixel of zeros behind it; then the weights, by group, tap, channel and output.
  int64_t image() const { return (pixels() + 1) * row(); }
  int64_t padded_outputs() const { return (outputs / groups + kOutputs - 1) / kOutputs * kOutputs; }
  int64_t packed() const { return groups * depth() * padded_outputs(); }
  int64_t turns() const { return (pixels() + kPixels - 1) / kPixels; }
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

// Pixels [begin, end) of image n with their channels together.
void turn(const Shape& s, const float* x, int64_t n, int64_t begin, int64_t end, float* to) {
  const int64_t row = s.row();
  float* const image = to + n * s.image();
  for (int64_t c = 0; c < row; ++c) {
    const float* const from = c < s.channels ? x + (n * s.channels + c) * s.pixels() : nullptr;
    for (int64_t p = begin; p < end; ++p) image[p * row + c] = from ? from[p] : 0.0F;
  }
  if (end == s.pixels()) std::fill_n(image + end * row, row, 0.0F);
}

// Weights of group g: of each tap and channel those of all outputs, zeros behind them.
void pack(const Shape& s, const float* w, int64_t g, float* to) {
  const int64_t own = s.outputs / s.groups, padded = s.padded_outputs(), channels = s.channels / s.groups,
                taps = s.taps();
  for (int64_t tap = 0; tap < taps; ++tap)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t o = 0; o < padded; ++o)
        to[((g * taps + tap) * channels + c) * padded + o] =
            o < own ? w[((g * own + o) * channels + c) * taps + tap] : 0.0F;
}

// The four pixels around a place and what they count; one of zeros stands for what lies outside of the image.
struct Corners {
  const float* at[4];
  float by[4];
};
struct Place {
  int64_t y, x;  // of the result
};

[[gnu::target("avx2,fma")]] Corners corners_at(const Shape& s, const float* image, float y, float x, float by) {
  const bool inside = y > -1 && x > -1 && y < static_cast<float>(s.height) && x < static_cast<float>(s.width);
  const float fy = inside ? std::floor(y) : 0, fx = inside ? std::floor(x) : 0, ty = y - fy, tx = x - fx;
  const auto y0 = static_cast<int64_t>(fy), x0 = static_cast<int64_t>(fx);
  Corners out;
  for (int c = 0; c < 4; ++c) {
    const int64_t cy = y0 + c / 2, cx = x0 + c % 2;
    const bool counts = inside && cy >= 0 && cx >= 0 && cy < s.height && cx < s.width;
    out.at[c] = image + (counts ? cy * s.width + cx : s.pixels()) * s.row();
    out.by[c] = counts ? (c / 2 ? ty : 1 - ty) * (c % 2 ? tx : 1 - tx) * by : 0;
  }
  return out;
}

// Channels [begin, end) of a sample, and up to seven behind them.
[[gnu::target("avx2,fma")]] void sample(const Corners& c, int64_t begin, int64_t end, float* to) {
  const __m256 a = _mm256_set1_ps(c.by[0]), b = _mm256_set1_ps(c.by[1]), d = _mm256_set1_ps(c.by[2]),
               e = _mm256_set1_ps(c.by[3]);
  for (int64_t k = begin; k < end; k += 8) {
    __m256 sum = _mm256_mul_ps(a, _mm256_loadu_ps(c.at[0] + k));
    sum = _mm256_fmadd_ps(b, _mm256_loadu_ps(c.at[1] + k), sum);
    sum = _mm256_fmadd_ps(d, _mm256_loadu_ps(c.at[2] + k), sum);
    _mm256_storeu_ps(to + k, _mm256_fmadd_ps(e, _mm256_loadu_ps(c.at[3] + k), sum));
  }
}

// Sums of kTile places by kOutputs outputs: sums[p][o] = sum of samples[p][tap][c] w[tap][c][o].
[[gnu::target("avx2,fma")]] void multiply(const Shape& s, const float* samples, const float* w, float* sums) {
  const int64_t channels = s.channels / s.groups, padded = s.padded_outputs(), row = s.row(), step = s.taps() * row;
  __m256 low[kTile], high[kTile];
#pragma GCC unroll 8
  for (int p = 0; p < kTile; ++p) low[p] = high[p] = _mm256_setzero_ps();
  for (int64_t tap = 0; tap < s.taps(); ++tap)
    for (int64_t c = 0; c < channels; ++c, w += padded) {
      const float* const from = samples + tap * row + c;
      const __m256 a = _mm256_loadu_ps(w), b = _mm256_loadu_ps(w + 8);
#pragma GCC unroll 8
      for (int p = 0; p < kTile; ++p) {
        const __m256 by = _mm256_broadcast_ss(from + p * step);
        low[p] = _mm256_fmadd_ps(by, a, low[p]);
        high[p] = _mm256_fmadd_ps(by, b, high[p]);
      }
    }
#pragma GCC unroll 8
  for (int p = 0; p < kTile; ++p) {
    _mm256_storeu_ps(sums + p * kOutputs, low[p]);
    _mm256_storeu_ps(sums + p * kOutputs + 8, high[p]);
  }
}

void run_task(const Shape& s, const Data& d, const float* turned, int64_t task, float* samples) {
  const int64_t places = s.out_height * s.out_width, n = task / s.blocks(), first = task % s.blocks() * kPlaces,
                count = std::min(kPlaces, places - first), per_set = s.channels / s.offsets, taps = s.taps(),
                row = s.row(), own = s.outputs / s.groups, channels = s.channels / s.groups;
  const float *const image = turned + n * s.image(), *const weights = turned + s.batch * s.image();
  Place at[kPlaces];
  for (int64_t p = 0; p < count; ++p) at[p] = {(first + p) / s.out_width, (first + p) % s.out_width};
  for (int64_t tap = 0; tap < taps; ++tap) {
    const int64_t i = tap / s.window.kernel[1], j = tap % s.window.kernel[1];
    for (int64_t set = 0; set < s.offsets; ++set) {
      const int64_t line = (n * s.offsets + set) * taps + tap;
      const float *const dy = d.offset + line * 2 * places + first, *const dx = dy + places,
                         *const mask = d.mask ? d.mask + line * places + first : nullptr;
      for (int64_t p = 0; p < count; ++p) {
        const float y = static_cast<float>(ops::window_at(s.window, 0, at[p].y, i)) + dy[p],
                    x = static_cast<float>(ops::window_at(s.window, 1, at[p].x, j)) + dx[p];
        sample(corners_at(s, image, y, x, mask ? mask[p] : 1.0F), set * per_set, (set + 1) * per_set,
               samples + (p * taps + tap) * row);
      }
    }
  }
  const int64_t tiles = (count + kTile - 1) / kTile;
  std::fill_n(samples + count * taps * row, (tiles * kTile - count) * taps * row, 0.0F);
  for (int64_t g = 0; g < s.groups; ++g)
    for (int64_t o = 0; o < own; o += kOutputs)
      for (int64_t tile = 0; tile < tiles; ++tile) {
        float sums[kTile * kOutputs];
        multiply(s, samples + tile * kTile * taps * row + g * channels,
                 weights + g * s.depth() * s.padded_outputs() + o, sums);
        const int64_t wide = std::min(kOutputs, own - o), high = std::min(kTile, count - tile * kTile);
        for (int64_t q = 0; q < wide; ++q) {
          const float bias = d.bias ? d.bias[g * own + o + q] : 0.0F;
          float* const y = d.y + (n * s.outputs + g * own + o + q) * places + first + tile * kTile;
          for (int64_t p = 0; p < high; ++p) y[p] = sums[p * kOutputs + q] + bias;
        }
      }
}

// First images are turned and weights packed, then places are done.
class Deform final : public Instance {
 public:
  Deform(const Shape& s, std::vector<Source> from) : s_(s), from_(std::move(from)) {}
  size_t workspace_bytes() const override {
    return static_cast<size_t>(s_.batch * s_.image() + s_.packed()) * sizeof(float);
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>((kPlaces * s_.taps() + 1) * s_.row()) * sizeof(float);
  }
  int phases() const override { return 2; }
  int64_t tasks(int phase) const override {
    return phase == 0 ? s_.batch * s_.turns() + s_.groups : s_.batch * s_.blocks();
  }
  void run_task(int phase, int64_t task, const Args& args) const override {
    const Data d = {from_[0].f32(args), from_[1].f32(args), from_[2].f32(args),
                    from_[3].f32(args), from_[4].f32(args), static_cast<float*>(args.out[0])};
    auto* const turned = reinterpret_cast<float*>(args.workspace);
    if (phase == 1) return kernels::run_task(s_, d, turned, task, reinterpret_cast<float*>(args.scratch));
    if (const int64_t g = task - s_.batch * s_.turns(); g >= 0) return pack(s_, d.w, g, turned + s_.batch * s_.image());
    const int64_t begin = task % s_.turns() * kPixels;
    turn(s_, d.x, task / s_.turns(), begin, std::min(s_.pixels(), begin + kPixels), turned);
  }

 private:
  Shape s_;
  std::vector<Source> from_;
};

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
  return std::unique_ptr<Instance>(std::make_unique<Deform>(s, std::move(from)));
}
}  // namespace

extern const Entry deform_f32_entry;
const Entry deform_f32_entry{{
    .name = "deform_f32",
    .version = 2,
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
