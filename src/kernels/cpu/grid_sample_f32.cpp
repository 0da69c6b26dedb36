// Kernel grid_sample_f32: images of f32 or f64 sampled at the positions of a grid, in every mode, over one to three
// spatial axes: the taps of a block of positions are computed once for all channels.
#include <immintrin.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_tasks.md.
constexpr int64_t kBlock = 64, kMaxTaps = 64;  // places at once; taps of a cubic place in three dimensions
constexpr double kCubic = -0.75;               // of the definition

enum class Mode { kNearest, kLinear, kCubic };
enum class Outside { kZeros, kBorder, kReflection };

struct Shape {
  Mode mode = Mode::kLinear;
  Outside outside = Outside::kZeros;
  bool align = false, wide = false;  // wide: f64
  int64_t batch = 1, channels = 1, image = 1, places = 1;
  std::vector<int64_t> extents;  // spatial, outermost first
  int64_t width() const { return mode == Mode::kNearest ? 1 : mode == Mode::kLinear ? 2 : 4; }
  int64_t taps() const {
    int64_t n = 1;
    for (size_t k = 0; k < extents.size(); ++k) n *= width();
    return n;
  }
  int64_t blocks() const { return (places + kBlock - 1) / kBlock; }
};

// Where an axis is read, and with what weight; -1: a zero outside.
struct Taps {
  int64_t index[4];
  double weight[4];
};

double reflected(const Shape& s, double at, int64_t extent) {
  const double low = s.align ? 0 : -0.5, high = static_cast<double>(extent) - (s.align ? 1 : 0.5), range = high - low;
  if (!(range > 0)) return low;
  if (at >= low && at <= high) return at;
  const double over = at < low ? low - at : at - high, times = std::floor(over / range), rest = over - times * range;
  const bool from_low = (std::fmod(times, 2) == 0) == (at < low);
  return from_low ? low + rest : high - rest;
}
int64_t pixel(const Shape& s, int64_t at, int64_t extent) {
  if (at >= 0 && at < extent) return at;
  if (s.outside == Outside::kZeros) return -1;
  if (s.outside == Outside::kReflection) at = static_cast<int64_t>(reflected(s, static_cast<double>(at), extent));
  return std::clamp<int64_t>(at, 0, extent - 1);
}
double place_of(const Shape& s, double normalised, int64_t extent) {
  if (std::isnan(normalised)) normalised = -1;
  const double n = static_cast<double>(extent);
  double at = s.align ? (normalised + 1) / 2 * (n - 1) : ((normalised + 1) * n - 1) / 2;
  at = std::clamp(at, -0x1p40, 0x1p40);
  if (s.mode == Mode::kNearest) at = std::nearbyint(s.wide ? at : static_cast<double>(static_cast<float>(at)));
  const double low = s.align ? 0 : -0.5, high = n - (s.align ? 1 : 0.5);
  if (at >= low && at <= high) return at;
  if (s.outside == Outside::kBorder && s.mode != Mode::kCubic) return std::clamp(at, 0.0, n - 1);
  return s.outside == Outside::kReflection ? reflected(s, at, extent) : at;
}
void find_taps(const Shape& s, double normalised, int64_t extent, Taps* out) {
  const double at = place_of(s, normalised, extent), base = std::floor(at), t = at - base;
  const int64_t first = static_cast<int64_t>(base);
  if (s.mode == Mode::kNearest) {
    out->index[0] = pixel(s, static_cast<int64_t>(at), extent);
    out->weight[0] = 1;
    return;
  }
  if (s.mode == Mode::kLinear) {
    for (int k = 0; k < 2; ++k) {
      out->index[k] = pixel(s, first + k, extent);
      out->weight[k] = k ? t : 1 - t;
    }
    return;
  }
  const auto near = [](double d) { return ((kCubic + 2) * d - (kCubic + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((kCubic * d - 5 * kCubic) * d + 8 * kCubic) * d - 4 * kCubic; };
  const double weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  for (int k = 0; k < 4; ++k) {
    out->index[k] = pixel(s, first - 1 + k, extent);
    out->weight[k] = weights[k];
  }
}

// Offsets and weights of the taps of one place; those outside weigh nothing.
template <class T>
void find_footprint(const Shape& s, const T* grid, int32_t* offset, T* weight) {
  const size_t rank = s.extents.size();
  Taps axes[3];
  for (size_t d = 0; d < rank; ++d)  // the grid names the last axis first
    find_taps(s, static_cast<double>(grid[rank - 1 - d]), s.extents[d], &axes[d]);
  for (int64_t k = 0; k < s.taps(); ++k) {
    int64_t at = 0, step = s.taps(), rest = k;
    double w = 1;
    bool inside = true;
    for (size_t d = 0; d < rank; ++d) {
      step /= s.width();
      const int64_t tap = rest / step;
      rest %= step;
      inside &= axes[d].index[tap] >= 0;
      at = at * s.extents[d] + axes[d].index[tap];
      w *= axes[d].weight[tap];
    }
    offset[k * kBlock] = inside ? static_cast<int32_t>(at) : -1;
    weight[k * kBlock] = static_cast<T>(w);
  }
}

// A block of places of one channel: what is outside adds nothing.
[[gnu::target("avx2,fma")]] void sum_taps(const float* x, const int32_t* offset, const float* weight, int64_t taps,
                                          float* y) {
  for (int64_t p = 0; p < kBlock; p += 8) {
    __m256 sum = _mm256_setzero_ps();
    for (int64_t k = 0; k < taps; ++k) {
      const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offset + k * kBlock + p));
      const __m256 there = _mm256_castsi256_ps(_mm256_cmpgt_epi32(at, _mm256_set1_epi32(-1)));
      const __m256 v = _mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, at, there, 4);
      sum = _mm256_fmadd_ps(v, _mm256_loadu_ps(weight + k * kBlock + p), sum);
    }
    _mm256_storeu_ps(y + p, sum);
  }
}

[[gnu::target("avx2,fma")]] void sum_taps(const double* x, const int32_t* offset, const double* weight, int64_t taps,
                                          double* y) {
  for (int64_t p = 0; p < kBlock; p += 4) {
    __m256d sum = _mm256_setzero_pd();
    for (int64_t k = 0; k < taps; ++k) {
      const __m128i at = _mm_loadu_si128(reinterpret_cast<const __m128i*>(offset + k * kBlock + p));
      const __m256d there = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm_cmpgt_epi32(at, _mm_set1_epi32(-1))));
      const __m256d v = _mm256_mask_i32gather_pd(_mm256_setzero_pd(), x, at, there, 8);
      sum = _mm256_fmadd_pd(v, _mm256_loadu_pd(weight + k * kBlock + p), sum);
    }
    _mm256_storeu_pd(y + p, sum);
  }
}

template <class T>
void run_block(const Shape& s, const T* x, const T* grid, T* y, int64_t task) {
  const int64_t image = task / s.blocks(), first = task % s.blocks() * kBlock,
                count = std::min(kBlock, s.places - first);
  const int64_t rank = static_cast<int64_t>(s.extents.size()), taps = s.taps();
  int32_t offset[kBlock * kMaxTaps];
  T weight[kBlock * kMaxTaps];
  for (int64_t p = 0; p < count; ++p)
    find_footprint(s, grid + (image * s.places + first + p) * rank, offset + p, weight + p);
  for (int64_t k = 0; k < taps; ++k) {
    std::fill(offset + k * kBlock + count, offset + (k + 1) * kBlock, -1);
    std::fill(weight + k * kBlock + count, weight + (k + 1) * kBlock, T{0});
  }
  for (int64_t c = 0; c < s.channels; ++c) {
    const T* from = x + (image * s.channels + c) * s.image;
    T* to = y + (image * s.channels + c) * s.places + first;
    if (count == kBlock) {
      sum_taps(from, offset, weight, taps, to);
      continue;
    }
    T made[kBlock];
    sum_taps(from, offset, weight, taps, made);
    std::copy_n(made, count, to);
  }
}

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "grid_sample") return refused("not a grid_sample");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  const DType type = n.in(0)->type.dtype;
  if (type != n.in(1)->type.dtype || (type != DType::kF32 && type != DType::kF64))
    return refused("takes f32, or f64, alone");
  const std::vector<int64_t> x = dims_of(*n.in(0)), grid = dims_of(*n.in(1)), y = dims_of(*n.out());
  if (x.size() < 3 || x.size() > 5 || grid.back() != static_cast<int64_t>(x.size()) - 2)
    return refused("takes one to three spatial axes");
  Shape s;
  const std::string mode = n.s("mode", "linear"), padding = n.s("padding_mode", "zeros");
  s.mode = mode == "nearest" ? Mode::kNearest : mode == "cubic" ? Mode::kCubic : Mode::kLinear;
  s.outside = padding == "border" ? Outside::kBorder : padding == "reflection" ? Outside::kReflection : Outside::kZeros;
  s.align = n.i("align_corners") != 0;
  s.wide = type == DType::kF64;
  s.batch = x[0];
  s.channels = x[1];
  s.extents.assign(x.begin() + 2, x.end());
  for (int64_t d : s.extents) s.image *= d;
  for (size_t k = 2; k < y.size(); ++k) s.places *= y[k];
  if (s.batch * s.channels * s.image * s.places == 0) return refused("an empty tensor");
  if (s.image >= int64_t{1} << 30) return refused("too large an image");
  return s;
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
  const Source x = Source::of(p, p.anchor().in(0), c.constants), grid = Source::of(p, p.anchor().in(1), c.constants);
  if (!x.known() || !grid.known()) return refused("reads a value made inside the region");
  return TaskInstance::make(s.batch * s.blocks(), 0, [s, x, grid](int64_t task, const Args& args) {
    if (s.wide)
      run_block(s, static_cast<const double*>(x.data(args)), static_cast<const double*>(grid.data(args)),
                static_cast<double*>(args.out[0]), task);
    else
      run_block(s, x.f32(args), grid.f32(args), static_cast<float*>(args.out[0]), task);
  });
}
}  // namespace

extern const Entry grid_sample_f32_entry;
const Entry grid_sample_f32_entry{{
    .name = "grid_sample_f32",
    .version = 1,
    .provider = "peri",
    .takes = "grid_sample of f32 or f64 in every mode over one to three spatial axes",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .takes_constants = true,
}};

}  // namespace peri::kernels
