// GridSample: x sampled at the positions of a grid, each in [-1, 1] across the image (its last axis first): nearest
// (ties to even), linear or cubic; outside are zeros, the border's elements, or the reflected image. NaN in the grid
// counts as -1.
#include <algorithm>
#include <cmath>

#include "ops/reference/cost.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

// Version 16 called the modes by their 2-D names.
Status upgrade(ir::Graph&, ir::Node& node, int) {
  if (node.s("mode") == "bilinear") node.attrs["mode"] = std::string("linear");
  if (node.s("mode") == "bicubic") node.attrs["mode"] = std::string("cubic");
  return Ok{};
}

Status infer(InferContext& c) {
  const Shape &x = c.shape(0), &grid = c.shape(1);
  const std::string mode = c.node.s("mode", "linear"), padding = c.node.s("padding_mode", "zeros");
  if (mode != "linear" && mode != "nearest" && mode != "cubic")
    return invalid("mode is unknown").expecting("linear, nearest or cubic").but_found(mode);
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    return invalid("padding_mode is unknown").expecting("zeros, border or reflection").but_found(padding);
  if (x.size() < 3 || grid.size() != x.size() ||
      (grid.back().is_const() && !grid.back().is_const(static_cast<int64_t>(x.size()) - 2)))
    return invalid("x and grid do not fit")
        .expecting("x [batch, channels, spatial...], grid [batch, out..., one number for each spatial axis]")
        .but_found(shape_text(x) + " and " + shape_text(grid));
  if (x[0].is_const() && grid[0].is_const() && !(x[0] == grid[0]))
    return invalid("x and grid have different batches").expecting(x[0].text()).but_found(grid[0].text());
  if (mode != "nearest" && !is_float(c.dtype(0)))
    return unsupported("grid_sample does not interpolate %s", std::string(dtype_name(c.dtype(0))).c_str())
        .expecting("a float type, or mode nearest")
        .advise("put a Cast before it");
  Shape y = {x[0], x[1]};
  y.insert(y.end(), grid.begin() + 1, grid.end() - 1);
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

struct Tap {
  int64_t index = -1;  // -1: a zero outside
  double weight = 1;
};
struct AxisTaps {
  Tap tap[4];
  int count = 1;
  double slope = 0;  // how far an error of the place may move the sum of |weights|
};

struct Sampler {
  enum class Mode { kNearest, kLinear, kCubic } mode = Mode::kLinear;
  enum class Outside { kZeros, kBorder, kReflection } outside = Outside::kZeros;
  bool align = false, wide = false;  // wide: places are computed in f64
  Sampler(const ir::Node& node, DType grid) : align(node.i("align_corners", 0) != 0), wide(grid == DType::kF64) {
    const std::string m = node.s("mode", "linear"), p = node.s("padding_mode", "zeros");
    mode = m == "nearest" ? Mode::kNearest : m == "cubic" ? Mode::kCubic : Mode::kLinear;
    outside = p == "border" ? Outside::kBorder : p == "reflection" ? Outside::kReflection : Outside::kZeros;
  }

  // Mirrored at the outermost centres (aligned corners) or edges until it lies between them.
  double reflect(double at, int64_t extent) const {
    const double low = align ? 0 : -0.5, high = static_cast<double>(extent) - (align ? 1 : 0.5), range = high - low;
    if (!(range > 0)) return low;
    if (at >= low && at <= high) return at;
    const double over = at < low ? low - at : at - high, times = std::floor(over / range), rest = over - times * range;
    const bool from_low = (std::fmod(times, 2) == 0) == (at < low);
    return from_low ? low + rest : high - rest;
  }
  int64_t pixel(int64_t at, int64_t extent) const {
    if (outside == Outside::kBorder) return std::clamp<int64_t>(at, 0, extent - 1);
    if (outside == Outside::kReflection)
      return std::clamp<int64_t>(static_cast<int64_t>(reflect(static_cast<double>(at), extent)), 0, extent - 1);
    return at >= 0 && at < extent ? at : -1;
  }
  double place(double normalised, int64_t extent) const {
    if (std::isnan(normalised)) normalised = -1;
    const double n = static_cast<double>(extent);
    double at = align ? (normalised + 1) / 2 * (n - 1) : ((normalised + 1) * n - 1) / 2;
    at = std::clamp(at, -0x1p40, 0x1p40);
    if (mode == Mode::kNearest) at = std::nearbyint(wide ? at : static_cast<double>(static_cast<float>(at)));
    const double low = align ? 0 : -0.5, high = n - (align ? 1 : 0.5);
    if (at < low || at > high) {
      if (outside == Outside::kBorder && mode != Mode::kCubic) at = std::clamp(at, 0.0, n - 1);
      if (outside == Outside::kReflection) at = reflect(at, extent);
    }
    return at;
  }
  AxisTaps taps(double normalised, int64_t extent) const {
    const double at = place(normalised, extent), base = std::floor(at), t = at - base;
    const int64_t first = static_cast<int64_t>(base);
    AxisTaps a;
    if (mode == Mode::kNearest) {
      a.tap[0].index = pixel(static_cast<int64_t>(at), extent);
      return a;
    }
    if (std::isfinite(normalised)) a.slope = 4 * (std::fabs(normalised) + 1) * static_cast<double>(extent);
    if (mode == Mode::kLinear) {
      a.count = 2;
      a.tap[0].weight = 1 - t;
      a.tap[1].weight = t;
      for (int k = 0; k < 2; ++k) a.tap[k].index = pixel(first + k, extent);
      return a;
    }
    a.count = 4;
    constexpr double kA = -0.75;  // of the definition
    const auto near = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
    const auto far = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
    const double weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (int k = 0; k < 4; ++k) a.tap[k] = {pixel(first - 1 + k, extent), weights[k]};
    return a;
  }
};

// Calls f(offset, weight) for every element of an image that contributes at a position; zeros outside are skipped.
// Returns the effect of an error of one unit of round-off in the position, in units of the largest element.
template <class F>
double each_read(const std::vector<AxisTaps>& axes, const int64_t* dims, F f) {
  int k[32] = {};
  double slope = 0;
  for (const AxisTaps& a : axes) slope += a.slope;
  while (true) {
    int64_t offset = 0;
    double weight = 1;
    bool inside = true;
    for (size_t d = 0; d < axes.size(); ++d) {
      const Tap& t = axes[d].tap[k[d]];
      inside &= t.index >= 0;
      offset = offset * dims[d] + t.index;
      weight *= t.weight;
    }
    if (inside) f(offset, weight);
    size_t d = axes.size();
    while (d > 0 && ++k[d - 1] == axes[d - 1].count) k[--d] = 0;
    if (d == 0) return slope;
  }
}

// The place in the grid under an output position, and the image it reads from.
struct Layout {
  std::vector<int64_t> x;
  int64_t places, image;
  size_t rank;
  Layout(const std::vector<int64_t>& x_dims, const std::vector<int64_t>& y_dims)
      : x(x_dims),
        places(span_of(y_dims, 2, y_dims.size())),
        image(span_of(x_dims, 2, x_dims.size())),
        rank(x.size() - 2) {}
  int64_t place(int64_t p) const { return p / places / x[1] * places + p % places; }
  int64_t first(int64_t p) const { return p / places * image; }
};

Status reference(RefCall& call) {
  const RefTensor &x = *call.in[0], &grid = *call.in[1];
  RefTensor& y = call.out[0];
  if (y.numel() == 0) return Ok{};
  const Layout l(x.dims, y.dims);
  if (grid.dims.back() != static_cast<int64_t>(l.rank))
    return invalid("grid has a wrong last dimension")
        .expecting(std::to_string(l.rank))
        .but_found(std::to_string(grid.dims.back()));
  if (l.image == 0)
    return invalid("x has no elements to read").but_found(shape_text(Shape(x.dims.begin(), x.dims.end())));
  const Sampler sampler(call.node, grid.dtype);
  const RefTensor zero = make_ref(x.dtype, {});
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    std::vector<AxisTaps> axes(l.rank);
    for (int64_t n = begin; n < end; ++n) {
      const int64_t p = call.position(n), at = l.place(p), first = l.first(p);
      for (size_t d = 0; d < l.rank; ++d)  // the grid names the last axis first
        axes[d] = sampler.taps(grid.f[static_cast<size_t>(at + 1) * l.rank - 1 - d], l.x[d + 2]);
      if (sampler.mode == Sampler::Mode::kNearest) copy_element(zero, 0, y, p);
      Near v;
      double magnitude = 0, largest = 0;
      const double slope = each_read(axes, l.x.data() + 2, [&](int64_t offset, double weight) {
        if (sampler.mode == Sampler::Mode::kNearest) return copy_element(x, first + offset, y, p);
        const Near e = element(&x, first + offset, 0);
        v.v += weight * e.v;
        v.r += std::fabs(weight) * e.r;
        magnitude += std::fabs(weight * e.v);
        largest = std::max(largest, std::fabs(e.v));
      });
      if (sampler.mode == Sampler::Mode::kNearest) continue;
      v.r += call.u * (16 * magnitude + slope * largest);
      store(y, p, v);
    }
  });
  return Ok{};
}

bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port == 0) return false;
  const Layout l(concrete(*node.in(0)), concrete(*node.out()));
  PositionSet set(span_of(concrete(*node.in(1)), 0, l.rank + 2));
  for (int64_t p : positions)
    for (size_t d = 0; d < l.rank; ++d) set.add(l.place(p) * static_cast<int64_t>(l.rank) + static_cast<int64_t>(d));
  set.list(needed);
  return true;
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  c.flops = 16 * elements_of(*node.out());
  return c;
}

}  // namespace

extern const Entry grid_sample_entry;
const Entry grid_sample_entry{{
    {.name = "grid_sample",
     .onnx = "GridSample",
     .versions = {16, 20, 22},
     .inputs = {{"x", kMovable}, {"grid", kFloats}},
     .outputs = {{"y"}},
     .attrs = {{"align_corners", AttrKind::kInt, false, "0"},
               {"mode", AttrKind::kString, false, "linear"},
               {"padding_mode", AttrKind::kString, false, "zeros"}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .jumps = true,  // nearest, and places that cross the border
     .samples =
         {"graph { input x: f32[2,3,4,5]; input g: f32[2,3,2,2]; y = grid_sample(x, g); output y }",
          "graph { input x: f32[1,2,4,5]; input g: f32[1,3,3,2]; y = grid_sample(x, g) {align_corners=1, "
          "mode=\"cubic\", padding_mode=\"reflection\"}; output y }",
          "graph { input x: f32[1,2,4,5]; input g: f32[1,3,3,2]; y = grid_sample(x, g) {mode=\"cubic\", "
          "padding_mode=\"border\"}; output y }",
          "graph { input x: i32[1,2,3,4]; input g: f32[1,2,3,2]; y = grid_sample(x, g) {mode=\"nearest\", "
          "padding_mode=\"reflection\"}; output y }",
          "graph { input x: f32[1,1,2,3,4]; input g: f32[1,2,2,2,3]; y = grid_sample(x, g) {padding_mode=\"border\"}; "
          "output y }",
          "graph { input x: f16[1,1,6]; const g: f16[1,5,1] = [nan, inf, -inf, 5.0, 0.25]; y = grid_sample(x, g) "
          "{padding_mode=\"reflection\"}; output y }",
          "graph { input x: f32[1,1,1,1]; input g: f32[1,2,2,2]; y = grid_sample(x, g) {align_corners=1, "
          "padding_mode=\"reflection\"}; output y }",
          "graph { input x: f64[0,2,3,3]; input g: f64[0,2,2,2]; y = grid_sample(x, g); output y }"}},
}};
}  // namespace peri::ops
