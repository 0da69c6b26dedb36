// RoiAlign and MaxRoiPool: for each region of interest a small image, every bin the mean (or largest term) of bilinear
// samples of x, or the largest element of x in the bin. Regions are computed in float, or double for double x.
#include <algorithm>
#include <cmath>

#include "ops/reference/cost.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

// Before version 16 there was no shift by half a pixel.
Status upgrade(ir::Graph&, ir::Node& node, int opset) {
  if (opset < 16) node.attrs["coordinate_transformation_mode"] = std::string("output_half_pixel");
  return Ok{};
}

Status check_rois(const InferContext& c, int64_t columns) {
  const Shape &x = c.shape(0), &rois = c.shape(1);
  if (x.size() != 4)
    return invalid("x has a wrong rank").expecting("[batch, channels, height, width]").but_found(shape_text(x));
  if (rois.size() != 2 || (rois[1].is_const() && !rois[1].is_const(columns)))
    return invalid("rois have a wrong shape")
        .expecting(format("[number, %lld]", static_cast<long long>(columns)))
        .but_found(shape_text(rois));
  return Ok{};
}

Status infer_align(InferContext& c) {
  PERI_TRY(check_rois(c, 4));
  const Shape &rois = c.shape(1), &batch = c.shape(2);
  if (batch.size() != 1 || (batch[0].is_const() && rois[0].is_const() && !(batch[0] == rois[0])))
    return invalid("batch_indices have a wrong shape")
        .expecting("[" + rois[0].text() + "]")
        .but_found(shape_text(batch));
  const std::string mode = c.node.s("mode", "avg"), how = c.node.s("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") return invalid("mode is unknown").expecting("avg or max").but_found(mode);
  if (how != "half_pixel" && how != "output_half_pixel")
    return invalid("coordinate_transformation_mode is unknown")
        .expecting("half_pixel or output_half_pixel")
        .but_found(how);
  const int64_t height = c.node.i("output_height", 1), width = c.node.i("output_width", 1);
  if (height < 1 || width < 1 || c.node.i("sampling_ratio", 0) < 0)
    return invalid("output_height, output_width or sampling_ratio is out of range").expecting(">= 1, >= 1, >= 0");
  c.set(0, c.dtype(0), {rois[0], c.shape(0)[1], Dim(height), Dim(width)});
  return Ok{};
}

Status infer_max(InferContext& c) {
  PERI_TRY(check_rois(c, 5));
  const std::vector<int64_t> pooled = c.node.ints("pooled_shape");
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1)
    return invalid("pooled_shape is out of range").expecting("two numbers >= 1");
  c.set(0, c.dtype(0), {c.shape(1)[0], c.shape(0)[1], Dim(pooled[0]), Dim(pooled[1])});
  return Ok{};
}

// Arithmetic in the type regions are computed in.
double rounded(const RefCall& call, double v) {
  return call.in[0]->dtype == DType::kF64 ? v : static_cast<double>(static_cast<float>(v));
}

// One axis of a region: bins of `size` from `start` on, each with `samples` samples.
struct Axis {
  double start = 0, size = 0;
  int64_t samples = 0;
};
Result<Axis> axis_of(const RefCall& call, double from, double to, int64_t bins) {
  const bool half = call.node.s("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const double scale = call.node.f("spatial_scale", 1), shift = half ? 0.5 : 0;
  Axis a;
  a.start = rounded(call, rounded(call, from * scale) - shift);
  double length = rounded(call, rounded(call, rounded(call, to * scale) - shift) - a.start);
  if (!half) length = std::max(length, 1.0);
  a.size = rounded(call, length / static_cast<double>(bins));
  const double samples =
      call.node.i("sampling_ratio", 0) > 0 ? static_cast<double>(call.node.i("sampling_ratio", 0)) : std::ceil(a.size);
  constexpr double kMaxSamples = 4096;  // keeps a run finite whatever the regions say
  if (!(samples <= kMaxSamples) || !std::isfinite(a.start))
    return invalid("a region of interest is out of range")
        .expecting("finite numbers, at most 4096 samples along a bin")
        .but_found(format("[%g, %g]", from, to));
  a.samples = std::max<int64_t>(static_cast<int64_t>(samples), 0);
  return a;
}

// Bilinear: the two elements around a place and the weight of the second; weights of places far outside are 0.
struct Between {
  int64_t low = 0, high = 0;
  double first = 0, second = 0;
};
Between between(double at, int64_t extent) {
  if (at < -1 || at > static_cast<double>(extent)) return {};
  at = std::max(at, 0.0);
  const int64_t low = std::min(static_cast<int64_t>(at), extent - 1), high = std::min(low + 1, extent - 1);
  const double t = low == extent - 1 ? 0 : at - static_cast<double>(low);
  return {low, high, 1 - t, t};
}

struct Plane {
  const RefTensor& x;
  int64_t first, height, width;
  Near at(int64_t row, int64_t column) const { return element(&x, first + row * width + column, 0); }
};

// How much a sample changes at most when its place does, by rows and by columns: a neighbour of little weight, or of
// none, gets more of it however small the sample is.
double slope(const Plane& plane, const Between& y, const Between& x) {
  const auto size = [&](int64_t row, int64_t column) {
    const double v = std::fabs(plane.at(row, column).v);
    return std::isfinite(v) ? v : 0;
  };
  if (y.first + y.second == 0 || x.first + x.second == 0) return 0;  // outside
  const double a = size(y.low, x.low), b = size(y.low, x.high), c = size(y.high, x.low), d = size(y.high, x.high);
  return y.first * (a + b) + y.second * (c + d) + x.first * (a + c) + x.second * (b + d);
}

Near bin_value(const RefCall& call, const Plane& plane, const Axis& rows, const Axis& columns, int64_t row,
               int64_t column) {
  const bool largest = call.node.s("mode", "avg") == "max";
  Near v;
  double magnitude = 0, moved = 0;  // of the terms; of what a place that is off by 1 adds and takes
  bool any = false;
  for (int64_t i = 0; i < rows.samples; ++i)
    for (int64_t j = 0; j < columns.samples; ++j) {
      auto sample = [&](const Axis& a, int64_t bin, int64_t k) {
        return a.start + static_cast<double>(bin) * a.size +
               (static_cast<double>(k) + 0.5) * a.size / static_cast<double>(a.samples);
      };
      const Between y = between(sample(rows, row, i), plane.height),
                    x = between(sample(columns, column, j), plane.width);
      // An element of weight zero is not read: next to an infinite one lies no NaN.
      auto term = [&](double weight, int64_t of_row, int64_t of_column) {
        return weight == 0 ? Near{} : times({weight, 0}, plane.at(of_row, of_column));
      };
      const Near terms[] = {term(y.first * x.first, y.low, x.low), term(y.first * x.second, y.low, x.high),
                            term(y.second * x.first, y.high, x.low), term(y.second * x.second, y.high, x.high)};
      moved += slope(plane, y, x);
      for (const Near& t : terms) {
        magnitude += std::fabs(t.v);
        if (!largest) v.v += t.v;
        if (largest && (!any || t.v > v.v || std::isnan(t.v))) v.v = t.v;
        v.r = largest ? std::max(v.r, t.r) : v.r + t.r;
        any = true;
      }
    }
  const double count = largest ? 1 : static_cast<double>(std::max<int64_t>(rows.samples * columns.samples, 1));
  // A place errs by a few roundings of its size, which moves weights between neighbours.
  const double reach =
      static_cast<double>(plane.height + plane.width) + std::fabs(rows.start) + std::fabs(columns.start);
  return {v.v / count, v.r / count + call.u * 8 * (magnitude + reach * moved) / count};
}

Status align(RefCall& call) {
  const RefTensor &x = *call.in[0], &rois = *call.in[1], &batch = *call.in[2];
  RefTensor& y = call.out[0];
  const int64_t channels = x.dims[1], height = x.dims[2], width = x.dims[3], bins_y = y.dims[2], bins_x = y.dims[3];
  if (y.numel() == 0) return Ok{};
  if (height * width == 0) return invalid("x has no elements to read");
  std::vector<Axis> rows, columns;
  for (int64_t n = 0; n < rois.dims[0]; ++n) {
    const double* r = rois.f.data() + n * 4;
    PERI_ASSIGN(const Axis across, axis_of(call, r[0], r[2], bins_x));
    PERI_ASSIGN(const Axis down, axis_of(call, r[1], r[3], bins_y));
    rows.push_back(down);
    columns.push_back(across);
    if (const int64_t b = batch.i[static_cast<size_t>(n)]; b < 0 || b >= x.dims[0])
      return invalid("a batch index is out of range")
          .expecting(format("[0, %lld)", static_cast<long long>(x.dims[0])))
          .but_found(std::to_string(b));
  }
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t p = call.position(k), bin = p % (bins_y * bins_x), plane = p / (bins_y * bins_x),
                    n = plane / channels;
      const size_t roi = static_cast<size_t>(n);
      const int64_t first = (batch.i[roi] * channels + plane % channels) * height * width;
      store(y, p, bin_value(call, {x, first, height, width}, rows[roi], columns[roi], bin / bins_x, bin % bins_x));
    }
  });
  return Ok{};
}

// Elements [begin, end) of an axis that bin `bin` touches.
std::pair<int64_t, int64_t> bin_range(double from, double to, int64_t bin, int64_t bins, int64_t extent) {
  const double start = std::round(from), length = std::max(std::round(to) - start + 1, 1.0);
  const float size = static_cast<float>(length) / static_cast<float>(bins);  // so that bins * size is the length
  const double n = static_cast<double>(extent);
  const double low = std::clamp(static_cast<double>(std::floor(static_cast<float>(bin) * size)) + start, 0.0, n),
               high = std::clamp(static_cast<double>(std::ceil(static_cast<float>(bin + 1) * size)) + start, 0.0, n);
  return {static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

Status max_pool(RefCall& call) {
  const RefTensor &x = *call.in[0], &rois = *call.in[1];
  RefTensor& y = call.out[0];
  const int64_t channels = x.dims[1], height = x.dims[2], width = x.dims[3], bins_y = y.dims[2], bins_x = y.dims[3];
  const double scale = call.node.f("spatial_scale", 1);
  for (int64_t k = 0; k < call.count(); ++k) {
    const int64_t p = call.position(k), bin = p % (bins_y * bins_x), plane = p / (bins_y * bins_x),
                  n = plane / channels;
    const double* r = rois.f.data() + n * 5;
    double at[4];
    for (int d = 0; d < 4; ++d) at[d] = rounded(call, r[d + 1] * scale);
    if (!(r[0] >= 0 && r[0] < static_cast<double>(x.dims[0])) || !std::isfinite(at[0] + at[1] + at[2] + at[3]))
      return invalid("a region of interest is out of range")
          .expecting(format("a batch in [0, %lld), then finite numbers", static_cast<long long>(x.dims[0])))
          .but_found(format("[%g, %g, %g, %g, %g]", r[0], r[1], r[2], r[3], r[4]));
    const Plane from{x, (static_cast<int64_t>(r[0]) * channels + plane % channels) * height * width, height, width};
    const auto [top, bottom] = bin_range(at[1], at[3], bin / bins_x, bins_y, height);
    const auto [left, right] = bin_range(at[0], at[2], bin % bins_x, bins_x, width);
    Near best;  // an empty bin is 0
    bool any = false;
    for (int64_t i = top; i < bottom; ++i)
      for (int64_t j = left; j < right; ++j) {
        const Near e = from.at(i, j);
        if (!any || e.v > best.v || std::isnan(e.v)) best.v = e.v;
        best.r = std::max(best.r, e.r);
        any = true;
      }
    store(y, p, best);
  }
  return Ok{};
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  c.flops = 32 * elements_of(*node.out());
  return c;
}

std::vector<Dim> index_ends(const ir::Node& node) { return leading_end(node.in(0)); }
// Of a region: its image, and places in it before they are scaled.
std::vector<Dim> region_ends(const ir::Node& node) {
  const ir::Type& x = node.in(0)->type;
  if (!x.known() || x.rank() != 4) return {};
  const double inverse = std::round(1 / node.f("spatial_scale", 1));
  const Dim by(inverse >= 1 && inverse <= 1024 ? static_cast<int64_t>(inverse) : 1);
  return {(*x.shape)[0], (*x.shape)[3] * by, (*x.shape)[2] * by};
}

}  // namespace

extern const Entry roi_align_entry;
const Entry roi_align_entry{{
    {.name = "roi_align",
     .onnx = "RoiAlign",
     .versions = {10, 16, 22},
     .inputs = {{"x", kFloats},
                {"rois", kFloats, false, false, 0},
                {"batch_indices", types({DType::kI64}), false, false, -1, Role::kIndex}},
     .outputs = {{"y"}},
     .attrs = {{"coordinate_transformation_mode", AttrKind::kString, false, "half_pixel"},
               {"mode", AttrKind::kString, false, "avg"},
               {"output_height", AttrKind::kInt, false, "1"},
               {"output_width", AttrKind::kInt, false, "1"},
               {"sampling_ratio", AttrKind::kInt, false, "0: as many as elements"},
               {"spatial_scale", AttrKind::kFloat, false, "1"}},
     .upgrade = upgrade,
     .infer = infer_align,
     .reference = align,
     .cost = cost,
     .jumps = true,  // the number of samples
     .index_ends = index_ends,
     .samples =
         {"graph { input x: f32[2,3,6,7]; const r: f32[3,4] = [0.0, 0.0, 5.0, 5.0, 1.5, 1.0, 6.0, 3.5, -3.0, 2.0, 9.0, "
          "4.0]; const b: i64[3] = [0, 1, 1]; y = roi_align(x, r, b) {output_height=2, output_width=3}; output y }",
          "graph { input x: f32[1,2,6,7]; const r: f32[2,4] = [0.0, 0.0, 10.0, 10.0, 2.0, 2.0, 2.0, 2.0]; const b: "
          "i64[2] "
          "= [0, 0]; y = roi_align(x, r, b) {coordinate_transformation_mode=\"output_half_pixel\", mode=\"max\", "
          "output_height=2, output_width=2, sampling_ratio=2, spatial_scale=0.5}; output y }",
          "graph { input x: f32[2,1,5,9]; const r: f32[2,4] = [1.0, 0.5, 3.0, 2.0, -1.0, 0.0, 4.0, 1.0]; const b: "
          "i64[2] "
          "= [1, 0]; y = roi_align(x, r, b) {output_height=3, output_width=1, sampling_ratio=3, spatial_scale=2.0}; "
          "output y }",
          "graph { input x: f16[1,1,4,4]; const r: f16[1,4] = [0.0, 0.0, 3.0, 3.0]; const b: i64[1] = [0]; y = "
          "roi_align(x, r, b); output y }",
          "graph { input x: f64[1,2,4,4]; input r: f64[0,4]; input b: i64[0]; y = roi_align(x, r, b); output y }"}},
    {.name = "max_roi_pool",
     .onnx = "MaxRoiPool",
     .versions = {1, 22},
     .inputs = {{"x", kFloats}, {"rois", kFloats, false, false, 0, Role::kIndex}},
     .outputs = {{"y"}},
     .attrs = {{"pooled_shape", AttrKind::kInts, true}, {"spatial_scale", AttrKind::kFloat, false, "1"}},
     .infer = infer_max,
     .reference = max_pool,
     .cost = cost,
     .jumps = true,  // which elements a bin touches
     .moves = true,
     .index_ends = region_ends,
     .samples =
         {"graph { input x: f32[2,3,6,7]; const r: f32[2,5] = [0.0, 0.0, 0.0, 5.0, 5.0, 1.0, 2.0, 1.0, 6.0, 3.0]; y = "
          "max_roi_pool(x, r) {pooled_shape=[2,3]}; output y }",
          "graph { input x: f16[1,2,4,4]; const r: f16[1,5] = [0.0, 6.0, 6.0, 20.0, 20.0]; y = max_roi_pool(x, r) "
          "{pooled_shape=[2,2], spatial_scale=0.5}; output y }",
          "graph { input x: f32[1,2,4,4]; input r: f32[0,5]; y = max_roi_pool(x, r) {pooled_shape=[1,1]}; output y }"}},
}};
}  // namespace peri::ops
