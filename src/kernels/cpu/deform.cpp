// Kernel deform: deformable convolution of images of f32 and f64. The image is transposed to channels last once per
// run, so that a sample reads four contiguous runs; the samples of a few positions are multiplied with the weights
// while they are in cache.
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
constexpr int64_t kTile = 6;     // places whose sums are registers together, of Lanes::kOutputs each
constexpr int64_t kPixels = 64;  // of an image, a task that turns it: a part that stays in L1

template <class T>
struct Lanes;
template <>
struct Lanes<float> {
  using V = __m256;
  static constexpr int64_t kLanes = 8, kOutputs = 16;
  [[gnu::target("avx2,fma"), gnu::always_inline]] static inline V load(const float* p) { return _mm256_loadu_ps(p); }
  [[gnu::target("avx2,fma"), gnu::always_inline]] static inline void store(float* p, V v) { _mm256_storeu_ps(p, v); }
  [[gnu::target("avx2,fma"), gnu::always_inline]] static inline V all(float v) { return _mm256_set1_ps(v); }
  [[gnu::target("avx2,fma"), gnu::always_inline]] static inline V mul(V a, V b) { return _mm256_mul_ps(a, b); }
  [[gnu::target("avx2,fma"), gnu::always_inline]] static inline V fma(V a, V b, V c) {
    return _mm256_fmadd_ps(a, b, c);
  }
};
template <>
struct Lanes<double> {
  using V = __m256d;
  static constexpr int64_t kLanes = 4, kOutputs = 8;
  [[gnu::target("avx2,fma"), gnu::always_inline]] static inline V load(const double* p) { return _mm256_loadu_pd(p); }
  [[gnu::target("avx2,fma"), gnu::always_inline]] static inline void store(double* p, V v) { _mm256_storeu_pd(p, v); }
  [[gnu::target("avx2,fma"), gnu::always_inline]] static inline V all(double v) { return _mm256_set1_pd(v); }
  [[gnu::target("avx2,fma"), gnu::always_inline]] static inline V mul(V a, V b) { return _mm256_mul_pd(a, b); }
  [[gnu::target("avx2,fma"), gnu::always_inline]] static inline V fma(V a, V b, V c) {
    return _mm256_fmadd_pd(a, b, c);
  }
};

struct Shape {
  DType type = DType::kF32;
  int64_t batch = 1, channels = 1, height = 1, width = 1, outputs = 1, out_height = 1, out_width = 1, groups = 1,
          offsets = 1;
  ops::Window window;
  int64_t taps() const { return window.kernel[0] * window.kernel[1]; }
  int64_t depth() const { return channels / groups * taps(); }
  // Channels of a pixel or sample with what vectors of eight write behind the last set.
  int64_t row() const {
    // Eight serve both types.
    return offsets == 1 || channels / offsets % 8 == 0 ? (channels + 7) / 8 * 8 : (channels + 14) / 8 * 8;
  }
  int64_t pixels() const { return height * width; }
  int64_t together() const { return type == DType::kF64 ? Lanes<double>::kOutputs : Lanes<float>::kOutputs; }
  // Turned images, each with a pixel of zeros behind it; then the weights, by group, tap, channel and output.
  int64_t image() const { return (pixels() + 1) * row(); }
  int64_t padded_outputs() const { return (outputs / groups + together() - 1) / together() * together(); }
  int64_t packed() const { return groups * depth() * padded_outputs(); }
  int64_t turns() const { return (pixels() + kPixels - 1) / kPixels; }
  int64_t blocks() const { return (out_height * out_width + kPlaces - 1) / kPlaces; }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "deform_conv") return refused("not a deformable convolution");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  Shape s;
  s.type = n.in(0)->type.dtype;
  if (s.type != DType::kF32 && s.type != DType::kF64) return refused("takes f32 and f64 only");
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  if (x.size() != 4) return refused("takes images only");
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

template <class T>
struct Data {
  const T *x, *w, *offset, *bias, *mask;
  T* y;
};

// Pixels [begin, end) of image n with their channels together.
template <class T>
void turn(const Shape& s, const T* x, int64_t n, int64_t begin, int64_t end, T* to) {
  const int64_t row = s.row();
  T* const image = to + n * s.image();
  for (int64_t c = 0; c < row; ++c) {
    const T* const from = c < s.channels ? x + (n * s.channels + c) * s.pixels() : nullptr;
    for (int64_t p = begin; p < end; ++p) image[p * row + c] = from ? from[p] : T(0);
  }
  if (end == s.pixels()) std::fill_n(image + end * row, row, T(0));
}

// Weights of group g: of each tap and channel those of all outputs, zeros behind them.
template <class T>
void pack(const Shape& s, const T* w, int64_t g, T* to) {
  const int64_t own = s.outputs / s.groups, padded = s.padded_outputs(), channels = s.channels / s.groups,
                taps = s.taps();
  for (int64_t tap = 0; tap < taps; ++tap)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t o = 0; o < padded; ++o)
        to[((g * taps + tap) * channels + c) * padded + o] =
            o < own ? w[((g * own + o) * channels + c) * taps + tap] : T(0);
}

// The four pixels around a place and what they count; one of zeros stands for what lies outside of the image.
template <class T>
struct Corners {
  const T* at[4];
  T by[4];
};
struct Place {
  int64_t y, x;  // of the result
};

template <class T>
[[gnu::target("avx2,fma")]] Corners<T> corners_at(const Shape& s, const T* image, T y, T x, T by) {
  const bool inside = y > -1 && x > -1 && y < static_cast<T>(s.height) && x < static_cast<T>(s.width);
  const T fy = inside ? std::floor(y) : 0, fx = inside ? std::floor(x) : 0, ty = y - fy, tx = x - fx;
  const auto y0 = static_cast<int64_t>(fy), x0 = static_cast<int64_t>(fx);
  Corners<T> out;
  for (int c = 0; c < 4; ++c) {
    const int64_t cy = y0 + c / 2, cx = x0 + c % 2;
    const bool counts = inside && cy >= 0 && cx >= 0 && cy < s.height && cx < s.width;
    out.at[c] = image + (counts ? cy * s.width + cx : s.pixels()) * s.row();
    out.by[c] = counts ? (c / 2 ? ty : 1 - ty) * (c % 2 ? tx : 1 - tx) * by : 0;
  }
  return out;
}

// Channels [begin, end) of a sample, and what a vector has behind them.
template <class T>
[[gnu::target("avx2,fma")]] void sample(const Corners<T>& c, int64_t begin, int64_t end, T* to) {
  using L = Lanes<T>;
  const typename L::V a = L::all(c.by[0]), b = L::all(c.by[1]), d = L::all(c.by[2]), e = L::all(c.by[3]);
  for (int64_t k = begin; k < end; k += L::kLanes) {
    typename L::V sum = L::mul(a, L::load(c.at[0] + k));
    sum = L::fma(b, L::load(c.at[1] + k), sum);
    sum = L::fma(d, L::load(c.at[2] + k), sum);
    L::store(to + k, L::fma(e, L::load(c.at[3] + k), sum));
  }
}

// Sums of kTile places by two vectors of outputs: sums[p][o] = sum of samples[p][tap][c] w[tap][c][o].
template <class T>
[[gnu::target("avx2,fma")]] void multiply(const Shape& s, const T* samples, const T* w, T* sums) {
  using L = Lanes<T>;
  const int64_t channels = s.channels / s.groups, padded = s.padded_outputs(), row = s.row(), step = s.taps() * row;
  typename L::V low[kTile], high[kTile];
#pragma GCC unroll 8
  for (int p = 0; p < kTile; ++p) low[p] = high[p] = L::all(0);
  for (int64_t tap = 0; tap < s.taps(); ++tap)
    for (int64_t c = 0; c < channels; ++c, w += padded) {
      const T* const from = samples + tap * row + c;
      const typename L::V a = L::load(w), b = L::load(w + L::kLanes);
#pragma GCC unroll 8
      for (int p = 0; p < kTile; ++p) {
        const typename L::V by = L::all(from[p * step]);
        low[p] = L::fma(by, a, low[p]);
        high[p] = L::fma(by, b, high[p]);
      }
    }
#pragma GCC unroll 8
  for (int p = 0; p < kTile; ++p) {
    L::store(sums + p * L::kOutputs, low[p]);
    L::store(sums + p * L::kOutputs + L::kLanes, high[p]);
  }
}

template <class T>
void run_task(const Shape& s, const Data<T>& d, const T* turned, int64_t task, T* samples) {
  const int64_t places = s.out_height * s.out_width, n = task / s.blocks(), first = task % s.blocks() * kPlaces,
                count = std::min(kPlaces, places - first), per_set = s.channels / s.offsets, taps = s.taps(),
                row = s.row(), own = s.outputs / s.groups, channels = s.channels / s.groups;
  constexpr int64_t kOutputs = Lanes<T>::kOutputs;
  const T *const image = turned + n * s.image(), *const weights = turned + s.batch * s.image();
  Place at[kPlaces];
  for (int64_t p = 0; p < count; ++p) at[p] = {(first + p) / s.out_width, (first + p) % s.out_width};
  for (int64_t tap = 0; tap < taps; ++tap) {
    const int64_t i = tap / s.window.kernel[1], j = tap % s.window.kernel[1];
    for (int64_t set = 0; set < s.offsets; ++set) {
      const int64_t line = (n * s.offsets + set) * taps + tap;
      const T *const dy = d.offset + line * 2 * places + first, *const dx = dy + places,
                     *const mask = d.mask ? d.mask + line * places + first : nullptr;
      for (int64_t p = 0; p < count; ++p) {
        const T y = static_cast<T>(ops::window_at(s.window, 0, at[p].y, i)) + dy[p],
                x = static_cast<T>(ops::window_at(s.window, 1, at[p].x, j)) + dx[p];
        sample(corners_at(s, image, y, x, mask ? mask[p] : T(1)), set * per_set, (set + 1) * per_set,
               samples + (p * taps + tap) * row);
      }
    }
  }
  const int64_t tiles = (count + kTile - 1) / kTile;
  std::fill_n(samples + count * taps * row, (tiles * kTile - count) * taps * row, T(0));
  for (int64_t g = 0; g < s.groups; ++g)
    for (int64_t o = 0; o < own; o += kOutputs)
      for (int64_t tile = 0; tile < tiles; ++tile) {
        T sums[kTile * kOutputs];
        multiply(s, samples + tile * kTile * taps * row + g * channels,
                 weights + g * s.depth() * s.padded_outputs() + o, sums);
        const int64_t wide = std::min(kOutputs, own - o), high = std::min(kTile, count - tile * kTile);
        for (int64_t q = 0; q < wide; ++q) {
          const T bias = d.bias ? d.bias[g * own + o + q] : T(0);
          T* const y = d.y + (n * s.outputs + g * own + o + q) * places + first + tile * kTile;
          for (int64_t p = 0; p < high; ++p) y[p] = sums[p * kOutputs + q] + bias;
        }
      }
}

// First images are turned and weights packed, then places are done.
template <class T>
class Deform final : public Instance {
 public:
  Deform(const Shape& s, std::vector<Source> from)
      : Instance({static_cast<size_t>(s.batch * s.image() + s.packed()) * sizeof(T),
                  static_cast<size_t>((kPlaces * s.taps() + 1) * s.row()) * sizeof(T),
                  {s.batch * s.turns() + s.groups, s.batch * s.blocks()},
                  {}}),
        s_(s),
        from_(std::move(from)) {}
  void run_task(int phase, int64_t task, const Args& args) const override {
    const auto part = [&](size_t k) { return static_cast<const T*>(from_[k].data(args)); };
    const Data<T> d = {part(0), part(1), part(2), part(3), part(4), static_cast<T*>(args.out[0])};
    auto* const turned = reinterpret_cast<T*>(args.workspace);
    if (phase == 1) return kernels::run_task<T>(s_, d, turned, task, reinterpret_cast<T*>(args.scratch));
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
  if (s.type == DType::kF64) return std::unique_ptr<Instance>(std::make_unique<Deform<double>>(s, std::move(from)));
  return std::unique_ptr<Instance>(std::make_unique<Deform<float>>(s, std::move(from)));
}
}  // namespace

extern const Entry deform_entry;
const Entry deform_entry{{
    .name = "deform",
    .version = 3,
    .provider = "peri",
    .takes = "deformable convolutions of images of f32 and f64, with groups, sets of offsets and masks",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[1,3,20,21]; input w: f32[5,3,3,3]; input o: f32[1,18,18,19]; y = deform_conv(x, "
                "w, o); output y }",
                "graph { input x: f32[2,6,9,11]; const w: f32[14,3,3,2] = seeded(0.3, 1); input o: f32[2,36,9,10]; "
                "const b: f32[14] = seeded(0.3, 2); input m: f32[2,18,9,10]; y = deform_conv(x, w, o, b, m) {group=2, "
                "offset_group=3, pads=[1, 0, 1, 0]}; output y }",
                "graph { input x: f64[2,6,9,11]; const w: f64[14,3,3,2] = seeded(0.3, 1); input o: f64[2,36,9,10]; "
                "const b: f64[14] = seeded(0.3, 2); input m: f64[2,18,9,10]; y = deform_conv(x, w, o, b, m) {group=2, "
                "offset_group=3, pads=[1, 0, 1, 0]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
