// Kernel roi_align_f32, of f32 or f64: the mean of bilinear samples in the bins of regions: along each axis the samples
// of a bin are weighted elements, computed once for several channels; whole lines are summed first, then their
// elements.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/indexed.hpp"

namespace peri::kernels {
namespace {
constexpr double kMaxSamples = 4096;  // along a bin, as the reference has it
// Measured: benchmarks/results/2026-11-23_constants_tasks.md.
constexpr int64_t kChannels = 32;  // a task does

struct Shape {
  bool half = true, wide = true;  // wide: indices of 64 bits
  bool doubles = false;
  double scale = 1;
  int64_t sampling = 0;
  int64_t images = 1, channels = 1, height = 1, width = 1, rois = 1, rows = 1, columns = 1;
  int64_t channel_blocks() const { return (channels + kChannels - 1) / kChannels; }
};

// The elements that each bin of an axis reads, with weights that add up to one where the samples lie inside.
template <class T>
struct Bins {
  struct Tap {
    int64_t index;
    T weight;
  };
  std::vector<Tap> taps;
  std::vector<size_t> begin;     // bins + 1 places in them
  int64_t first = 0, count = 0;  // elements from the first to the last of all taps

  // Neighbouring samples of a bin lie between the same elements.
  void add(int64_t index, T weight) {
    for (size_t k = taps.size(); k > begin.back() && k + 2 > taps.size(); --k)
      if (taps[k - 1].index == index) {
        taps[k - 1].weight += weight;
        return;
      }
    taps.push_back({index, weight});
  }
  void find_ends() {
    if (taps.empty()) return;
    const auto [low, high] =
        std::minmax_element(taps.begin(), taps.end(), [](const Tap& a, const Tap& b) { return a.index < b.index; });
    first = low->index;
    count = high->index - first + 1;
  }
};

// False: the region is out of range.
template <class T>
bool find_bins(const Shape& s, T from, T to, int64_t bins, int64_t extent, Bins<T>* out) {
  const T shift = s.half ? T{0.5} : T{0}, scale = static_cast<T>(s.scale), start = from * scale - shift;
  T length = to * scale - shift - start;
  if (!s.half) length = std::max(length, T{1});
  const T size = length / static_cast<T>(bins);
  const double wanted = s.sampling > 0 ? static_cast<double>(s.sampling) : std::ceil(static_cast<double>(size));
  if (!(wanted <= kMaxSamples) || !std::isfinite(start)) return false;
  const int64_t samples = std::max<int64_t>(static_cast<int64_t>(wanted), 0);
  const T each = T{1} / static_cast<T>(std::max<int64_t>(samples, 1));
  out->begin.push_back(0);
  for (int64_t b = 0; b < bins; ++b) {
    for (int64_t k = 0; k < samples; ++k) {
      double at = static_cast<double>(start) + static_cast<double>(b) * static_cast<double>(size) +
                  (static_cast<double>(k) + 0.5) * static_cast<double>(size) / static_cast<double>(samples);
      if (at < -1 || at > static_cast<double>(extent)) continue;
      at = std::max(at, 0.0);
      const int64_t low = std::min(static_cast<int64_t>(at), extent - 1), high = std::min(low + 1, extent - 1);
      const T t = low == extent - 1 ? 0 : static_cast<T>(at - static_cast<double>(low));
      out->add(low, (1 - t) * each);
      if (t != 0) out->add(high, t * each);
    }
    out->begin.push_back(out->taps.size());
  }
  out->find_ends();
  return true;
}

template <class T>
void join_lines(const T* plane, int64_t width, std::span<const typename Bins<T>::Tap> lines, std::span<T> out) {
  std::fill(out.begin(), out.end(), T{0});
  const int64_t n = std::ssize(out);
  T* __restrict__ to = out.data();
  for (const auto& tap : lines) {
    const T* __restrict__ line = plane + tap.index * width;
    const T weight = tap.weight;
    for (int64_t k = 0; k < n; ++k) to[k] += weight * line[k];
  }
}

template <class T>
void join_elements(const T* line, const Bins<T>& columns, T* to) {
  for (size_t j = 0; j + 1 < columns.begin.size(); ++j) {
    T sum = 0;
    for (size_t k = columns.begin[j]; k < columns.begin[j + 1]; ++k)
      sum += columns.taps[k].weight * line[columns.taps[k].index];
    to[j] = sum;
  }
}

template <class T>
void join_both(const T* plane, int64_t width, std::span<const typename Bins<T>::Tap> lines, const Bins<T>& columns,
               T* to) {
  for (size_t j = 0; j + 1 < columns.begin.size(); ++j) {
    T sum = 0;
    for (const auto& tap : lines) {
      const T* line = plane + tap.index * width;
      T along = 0;
      for (size_t k = columns.begin[j]; k < columns.begin[j + 1]; ++k)
        along += columns.taps[k].weight * line[columns.taps[k].index];
      sum += tap.weight * along;
    }
    to[j] = sum;
  }
}

template <class T>
bool run_region(const Shape& s, const T* x, const T* rois, const void* batch, T* y, int64_t task) {
  const int64_t roi = task / s.channel_blocks(), first = task % s.channel_blocks() * kChannels,
                end = std::min(s.channels, first + kChannels), image = index_at(batch, s.wide, roi);
  if (image < 0 || image >= s.images) return false;
  Bins<T> rows, columns;
  const T* region = rois + roi * 4;
  if (!find_bins(s, region[0], region[2], s.columns, s.width, &columns)) return false;
  if (!find_bins(s, region[1], region[3], s.rows, s.height, &rows)) return false;
  // Few bins of a wide region read few of its elements: then they are joined one by one.
  const bool whole_lines = columns.count <= 4 * static_cast<int64_t>(columns.taps.size());
  std::vector<T> joined(static_cast<size_t>(columns.count));
  for (int64_t c = first; c < end; ++c) {
    const T* plane = x + (image * s.channels + c) * s.height * s.width;
    T* to = y + (roi * s.channels + c) * s.rows * s.columns;
    for (size_t i = 0; i + 1 < rows.begin.size(); ++i, to += s.columns) {
      const std::span<const typename Bins<T>::Tap> lines(rows.taps.data() + rows.begin[i],
                                                         rows.begin[i + 1] - rows.begin[i]);
      if (whole_lines) {
        join_lines<T>(plane + columns.first, s.width, lines, joined);
        join_elements<T>(joined.data() - columns.first, columns, to);
      } else {
        join_both<T>(plane, s.width, lines, columns, to);
      }
    }
  }
  return true;
}

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "roi_align") return refused("not a roi_align");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  const DType type = n.in(0)->type.dtype;
  if (type != n.in(1)->type.dtype || (type != DType::kF32 && type != DType::kF64))
    return refused("takes f32, or f64, alone");
  if (n.s("mode", "avg") != "avg") return refused("the largest sample");
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  Shape s;
  s.half = n.s("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  s.doubles = type == DType::kF64;
  s.wide = n.in(2)->type.dtype == DType::kI64;
  s.scale = n.f("spatial_scale", 1);
  s.sampling = n.i("sampling_ratio", 0);
  s.images = x[0];
  s.channels = x[1];
  s.height = x[2];
  s.width = x[3];
  s.rois = y[0];
  s.rows = y[2];
  s.columns = y[3];
  if (s.images * s.channels * s.height * s.width * s.rois == 0) return refused("an empty tensor");
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const ir::Node& n = p.anchor();
  const Source x = Source::of(p, n.in(0), c.constants), rois = Source::of(p, n.in(1), c.constants),
               batch = Source::of(p, n.in(2), c.constants);
  if (!x.known() || !rois.known() || !batch.known()) return refused("reads a value made inside the region");
  const auto run = [=](int64_t task, const Args& args) {
    if (s.doubles)
      return run_region(s, static_cast<const double*>(x.data(args)), static_cast<const double*>(rois.data(args)),
                        batch.data(args), static_cast<double*>(args.out[0]), task);
    return run_region(s, x.f32(args), rois.f32(args), batch.data(args), static_cast<float*>(args.out[0]), task);
  };
  return IndexedInstance::make({{s.rois * s.channel_blocks(), run}},
                               format("batch indices in [0, %lld), finite regions, at most 4096 samples along a bin",
                                      static_cast<long long>(s.images)));
}
}  // namespace

extern const Entry roi_align_f32_entry;
const Entry roi_align_f32_entry{{
    .name = "roi_align_f32",
    .version = 2,
    .provider = "peri",
    .takes = "roi_align of f32 or f64 by means",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[2,20,30,40]; input r: f32[9,4]; input b: i64[9]; y = roi_align(x, r, b) "
         "{output_height=5, output_width=7}; output y }",
         "graph { input x: f32[1,3,30,40]; const r: f32[2,4] = [1.5, 2.25, 20.0, 17.5, -3.0, 4.0, 39.0, 31.0]; const "
         "b: "
         "i64[2] = [0, 0]; y = roi_align(x, r, b) {output_height=4, output_width=3, sampling_ratio=2}; output y }",
         "graph { input x: f32[1,3,30,40]; const r: f32[2,4] = [1.5, 2.25, 20.0, 17.5, -3.0, 4.0, 39.0, 31.0]; const "
         "b: "
         "i64[2] = [0, 0]; y = roi_align(x, r, b) {output_height=2, output_width=2, "
         "coordinate_transformation_mode=\"output_half_pixel\", spatial_scale=0.5}; output y }",
         "graph { input x: f32[1,35,30,90]; const r: f32[3,4] = [1.5, 2.25, 88.0, 17.5, -3.0, 4.0, 0.5, 31.0, 20.0, "
         "9.0, "
         "22.5, 10.5]; const b: i64[3] = [0, 0, 0]; y = roi_align(x, r, b) {output_height=3, output_width=2, "
         "sampling_ratio=1}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
