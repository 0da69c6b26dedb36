// Resize: separable resampling to scales or sizes, in every mode and coordinate convention of ONNX; Upsample is
// converted to it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/reference/cost.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/resample.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {

// Opset 10 had two inputs and one convention: asymmetric, nearest rounding down when growing and up when shrinking.
Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  if (opset > 10) return Ok{};
  ir::Value* scales = node.in(1);
  if (scales) graph.set_input(&node, 1, nullptr);
  put_input(graph, node, 2, scales);
  node.attrs["coordinate_transformation_mode"] = std::string("asymmetric");
  node.attrs["nearest_mode"] = std::string("simple");
  if (node.s("mode") == "bilinear") node.attrs["mode"] = std::string("linear");
  return Ok{};
}

Status upgrade_upsample(ir::Graph& graph, ir::Node& node, int opset) {
  if (auto it = node.attrs.find("scales"); it != node.attrs.end()) {
    const auto* values = std::get_if<std::vector<double>>(&it->second);
    if (!values || node.in(1)) return invalid("the scales of Upsample must be one list of floats").at_node(node.name);
    std::vector<float> scales(values->begin(), values->end());
    put_input(graph, node, 1,
              graph.add_constant("scales", Tensor::of_f32({static_cast<int64_t>(scales.size())}, scales)));
    node.attrs.erase("scales");
  }
  node.op = "resize";
  return upgrade(graph, node, opset);
}

bool given(const ir::Node& node, size_t port) {
  const ir::Value* v = node.in(port);
  return v && !(v->type.shape->size() == 1 && v->type.shape->front().is_const(0));
}

Result<std::vector<int64_t>> axes_of(const ir::Node& node, size_t rank) {
  std::vector<int64_t> axes = node.ints("axes");
  if (!node.has("axes")) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  PERI_TRY(normalize_axes(axes, rank));  // refuses repeated ones
  for (int64_t& a : axes) a = a < 0 ? a + static_cast<int64_t>(rank) : a;
  return axes;
}

// Sizes that keep the aspect ratio: one scale for all axes.
double kept_scale(const std::string& policy, std::span<const int64_t> axes, const std::vector<int64_t>& in,
                  std::span<const int64_t> sizes) {
  double kept = policy == "not_larger" ? HUGE_VAL : 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    const double s = static_cast<double>(sizes[k]) / static_cast<double>(in[static_cast<size_t>(axes[k])]);
    kept = policy == "not_larger" ? std::min(kept, s) : std::max(kept, s);
  }
  return kept;
}
// An extent from a scale that is kept for all axes; -1 where there is none (an axis of no elements, too many of them).
int64_t kept_extent(double kept, int64_t in) {
  const double v = std::floor(kept * static_cast<double>(in) + 0.5);
  return v >= 0 && v < 0x1p62 ? static_cast<int64_t>(v) : -1;
}

// A scale that is a fraction with a small denominator scales a symbol exactly.
std::optional<Dim> scaled(const Dim& in, double scale) {
  if (in.is_const()) return Dim(scaled_extent(in.value(), scale));
  for (int64_t q = 1; q <= 64; ++q) {
    const int64_t p = std::llround(scale * static_cast<double>(q));
    if (p > 0 && static_cast<float>(static_cast<double>(p) / static_cast<double>(q)) == static_cast<float>(scale))
      return floordiv(in * p, Dim(q));
  }
  return {};
}

Status infer_scales(InferContext& c, const std::vector<int64_t>& axes, Shape& y) {
  const std::optional<Tensor>& scales = c.node.in(2)->constant;
  for (size_t k = 0; k < axes.size(); ++k) {
    Dim& d = y[static_cast<size_t>(axes[k])];
    std::optional<Dim> extent;
    if (scales) {
      const double scale = scales->f64(static_cast<int64_t>(k));
      if (!(scale > 0) || !std::isfinite(scale))
        return invalid("scales are out of range").expecting("positive numbers").but_found(std::to_string(scale));
      extent = scaled(d, scale);
      if (extent && extent->is_const() && extent->value() < 0) return invalid("scales make the output too large");
    }
    d = extent ? *extent : c.fresh("resize");
  }
  return Ok{};
}

Status infer_sizes(InferContext& c, const std::vector<int64_t>& axes, Shape& y) {
  const std::string policy = c.node.s("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    return invalid("keep_aspect_ratio_policy is unknown")
        .expecting("stretch, not_larger or not_smaller")
        .but_found(policy);
  const std::vector<Dim>* sizes = c.known(3);
  std::vector<int64_t> in, wanted;
  for (const Dim& d : y) in.push_back(d.is_const() ? d.value() : -1);
  bool numbers = sizes != nullptr;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (sizes && (*sizes)[k].is_const() && (*sizes)[k].value() < 1)
      return invalid("sizes are out of range").expecting(">= 1").but_found((*sizes)[k].text());
    numbers = numbers && (*sizes)[k].is_const() && in[static_cast<size_t>(axes[k])] > 0;
    wanted.push_back(numbers ? (*sizes)[k].value() : 0);
  }
  const auto joined = sizes ? std::vector<std::optional<Dim>>() : joined_elements(*c.node.in(3));
  const double kept = numbers && policy != "stretch" ? kept_scale(policy, axes, in, wanted) : 1;
  for (size_t k = 0; k < axes.size(); ++k) {
    Dim& d = y[static_cast<size_t>(axes[k])];
    if (policy == "stretch") {
      const bool known = joined.size() == axes.size() && joined[k];
      d = sizes ? (*sizes)[k] : known ? *joined[k] : c.fresh("resize");
    } else {
      d = numbers ? Dim(kept_extent(kept, d.value())) : c.fresh("resize");
      if (d.is_const() && d.value() < 0) return invalid("sizes make the output too large");
    }
  }
  return Ok{};
}

Status infer(InferContext& c) {
  Shape y = c.shape(0);
  PERI_ASSIGN(const Sampling sampling, sampling_of(c.node));
  if (c.dtype(0) == DType::kString && sampling.mode != "nearest")
    return invalid("strings have no values between them").expecting("mode nearest").but_found(sampling.mode);
  PERI_ASSIGN(const std::vector<int64_t> axes, axes_of(c.node, y.size()));
  const bool scales = given(c.node, 2), sizes = given(c.node, 3);
  if (scales == sizes)
    return invalid("%s scales and sizes are given", scales ? "both" : "neither").expecting("one of them");
  const size_t port = scales ? 2 : 3;
  const Shape& s = c.shape(port);
  if (s.size() != 1 || !(s[0] == Dim(static_cast<int64_t>(axes.size()))))
    return invalid("%s has a wrong shape", scales ? "scales" : "sizes")
        .expecting(format("[%zu], one for each axis", axes.size()))
        .but_found(shape_text(s));
  const bool crop = c.node.s("coordinate_transformation_mode") == "tf_crop_and_resize";
  if (crop && (!given(c.node, 1) || c.rank(1) != 1 || !(c.shape(1)[0] == Dim(static_cast<int64_t>(2 * axes.size())))))
    return invalid("roi has a wrong shape")
        .expecting(format("[%zu]: a start for each axis, then an end for each", 2 * axes.size()))
        .but_found(given(c.node, 1) ? shape_text(c.shape(1)) : "nothing");
  if (scales) {
    PERI_TRY(infer_scales(c, axes, y));
  } else {
    PERI_TRY(infer_sizes(c, axes, y));
  }
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

// What the inputs say at run time about every axis.
Result<std::vector<AxisGeometry>> geometry_of(const RefCall& call) {
  const std::vector<int64_t>& x = call.in[0]->dims;
  PERI_ASSIGN(const std::vector<int64_t> axes, axes_of(call.node, x.size()));
  const RefTensor* roi = call.in.size() > 1 && call.node.s("coordinate_transformation_mode") == "tf_crop_and_resize"
                             ? call.in[1]
                             : nullptr;
  const bool by_scale = given(call.node, 2);
  const std::string policy = call.node.s("keep_aspect_ratio_policy", "stretch");
  std::vector<AxisGeometry> g(x.size());
  for (size_t d = 0; d < x.size(); ++d) g[d].in = g[d].out = x[d];
  const double kept = by_scale || policy == "stretch" ? 1 : kept_scale(policy, axes, x, call.in[3]->i);
  for (size_t k = 0; k < axes.size(); ++k) {
    AxisGeometry& a = g[static_cast<size_t>(axes[k])];
    if (by_scale) {
      a.scale = call.in[2]->f[k];
      if (!(a.scale > 0) || !std::isfinite(a.scale))
        return invalid("scales are out of range").expecting("positive numbers").but_found(std::to_string(a.scale));
      a.out = scaled_extent(a.in, a.scale);
    } else if (policy == "stretch") {
      a.out = call.in[3]->i[k];
      a.scale = static_cast<double>(a.out) / static_cast<double>(std::max<int64_t>(a.in, 1));
    } else {
      a.scale = kept;
      a.out = kept_extent(kept, a.in);
    }
    if (a.out < 0 || (a.in == 0 && a.out > 0))
      return invalid("an axis cannot be resized")
          .expecting("a positive extent")
          .but_found(format("%lld to %lld", static_cast<long long>(a.in), static_cast<long long>(a.out)));
    if (roi) {
      a.start = roi->f[k];
      a.end = roi->f[k + axes.size()];
    }
    a.whole = a.scale == 1 && a.out == a.in && !roi;
  }
  return g;
}

// Input elements under one output position with the product of their weights.
struct Footprint {
  std::vector<Tap> taps, next;
  bool outside = false;
  double slack = 0;  // how far coordinates may be off, in input elements, times 1/u
  void gather(const std::vector<AxisTaps>& axes, const std::vector<int64_t>& o, const std::vector<int64_t>& in) {
    taps.assign(1, {0, 1});
    outside = false;
    slack = 0;
    for (size_t d = 0; d < axes.size(); ++d) {
      const AxisTaps& a = axes[d];
      outside |= a.outside[static_cast<size_t>(o[d])] != 0;
      if (!a.reach.empty()) slack += a.reach[static_cast<size_t>(o[d])];
      next.clear();
      for (const Tap& t : taps)
        for (const Tap& k : a.at(o[d])) next.push_back({t.index * in[d] + k.index, t.weight * k.weight});
      taps.swap(next);
    }
  }
};

// An integer is cut off, or, of an antialiased resize, rounded: as ONNX Runtime does.
void blend(RefCall& call, const Footprint& f, int64_t at, bool rounds) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  double sum = 0, magnitude = 0, spread = 0, low = HUGE_VAL, high = -HUGE_VAL;
  for (const Tap& t : f.taps) {
    const double v = number_at(x, t.index);
    low = std::min(low, v);
    high = std::max(high, v);
    if (t.weight == 0) continue;
    sum += t.weight * v;
    magnitude += std::fabs(t.weight * v);
    if (x.floating()) spread += std::fabs(t.weight) * x.r(t.index);
  }
  if (!y.floating()) {
    if (rounds) sum = std::floor(sum + 0.5);
    y.i[static_cast<size_t>(at)] = int_from(
        y.dtype, std::clamp(sum, int_value(y.dtype, int_lowest(y.dtype)), int_value(y.dtype, int_largest(y.dtype))));
    return;
  }
  y.f[static_cast<size_t>(at)] = sum;
  if (call.u == 0 || !std::isfinite(sum)) return;
  y.radius[static_cast<size_t>(at)] = sum_radius(call.u, static_cast<int64_t>(f.taps.size()) + 2, magnitude) + spread +
                                      8 * call.u * f.slack * (high - low);
}

Status reference(RefCall& call) {
  PERI_ASSIGN(const std::vector<AxisGeometry> geometry, geometry_of(call));
  PERI_ASSIGN(const Sampling sampling, sampling_of(call.node));
  RefTensor& y = call.out[0];
  std::vector<int64_t> dims;
  std::vector<AxisTaps> axes;
  for (const AxisGeometry& g : geometry) dims.push_back(g.out);
  if (y.dims != dims) {  // scales known only now
    PERI_TRY(resize(y, dims));
  }
  if (y.numel() == 0) return Ok{};
  for (const AxisGeometry& g : geometry) axes.push_back(axis_taps(sampling, g));
  const double beyond = call.node.f("extrapolation_value", 0);
  const bool rounds = call.node.i("antialias") != 0;
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    Footprint f;
    std::vector<int64_t> o(dims.size());
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = call.position(n);
      unravel(at, dims, o);
      f.gather(axes, o, call.in[0]->dims);
      if (f.outside && y.floating()) {
        y.f[static_cast<size_t>(at)] = beyond;
      } else if (f.outside && y.dtype != DType::kString) {
        y.i[static_cast<size_t>(at)] = int_from(y.dtype, beyond);
      } else if (sampling.mode == "nearest") {
        copy_element(*call.in[0], f.taps[0].index, y, at);
      } else {
        blend(call, f, at, rounds);
      }
    }
  });
  return Ok{};
}

Status infer_upsample(InferContext&) {
  return unsupported("upsample is the older form of resize").advise("write resize");
}

Cost cost(const ir::Node& node) {
  const std::string mode = node.s("mode", "nearest");
  Cost c = traffic_of(node);
  c.bytes_read = std::min(c.bytes_read, bytes_of(*node.out()) * (mode == "nearest" ? 1 : 4));
  c.flops = mode == "nearest" ? 0 : elements_of(*node.out()) * (mode == "cubic" ? 32 : 8);
  return c;
}

constexpr TypeSet kBlended = kNumbers;

}  // namespace

extern const Entry resize_entry;
const Entry resize_entry{{
    {.name = "resize",
     .onnx = "Resize",
     .versions = {10, 11, 13, 18, 19},
     .inputs = {{"x", kBlended | types({DType::kBool, DType::kString})},
                {"roi", kFloats, true, false, -1, Role::kData, true},
                {"scales", types({DType::kF32}), true, false, -1, Role::kData, true},
                {"sizes", types({DType::kI64}), true}},
     .outputs = {{"y"}},
     .attrs = {{"antialias", AttrKind::kInt, false, "0"},
               {"axes", AttrKind::kInts, false, "all"},
               {"coordinate_transformation_mode", AttrKind::kString, false, "half_pixel"},
               {"cubic_coeff_a", AttrKind::kFloat, false, "-0.75"},
               {"exclude_outside", AttrKind::kInt, false, "0"},
               {"extrapolation_value", AttrKind::kFloat, false, "0"},
               {"keep_aspect_ratio_policy", AttrKind::kString, false, "stretch"},
               {"mode", AttrKind::kString, false, "nearest"},
               {"nearest_mode", AttrKind::kString, false,
                "round_prefer_floor; `simple` rounds down when growing, up when shrinking"}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .keeps_range = true,
     .samples =
         {"graph { input x: f32[1,2,4,5]; const s: f32[4] = [1.0, 1.0, 2.0, 2.0]; y = resize(x, _, s); output y }",
          "graph { input x: f32[1,2,4,5]; const s: i64[4] = [1, 2, 9, 7]; y = resize(x, _, _, s) "
          "{coordinate_transformation_mode=\"pytorch_half_pixel\", mode=\"linear\"}; output y }",
          "graph { input x: f32[1,1,5,6]; const s: i64[4] = [1, 1, 3, 4]; y = resize(x, _, _, s) {antialias=1, "
          "mode=\"linear\"}; output y }",
          "graph { input x: f32[1,1,5,6]; const s: i64[2] = [8, 3]; y = resize(x, _, _, s) {axes=[2,3], "
          "coordinate_transformation_mode=\"align_corners\", mode=\"cubic\"}; output y }",
          "graph { input x: f32[1,1,4,4]; const s: f32[4] = [1.0, 1.0, 0.6, 0.6]; y = resize(x, _, s) "
          "{exclude_outside=1, mode=\"cubic\"}; output y }",
          "graph { input x: f32[1,1,4,4]; const s: f32[2] = [2.0, 0.8]; y = resize(x, _, s) {axes=[-1,-2], "
          "coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\"}; output y }",
          "graph { input x: f32[1,1,4,4]; const r: f32[8] = [0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 1.2, 1.7]; const s: i64[4] "
          "= [1, 1, 3, 3]; "
          "y = resize(x, r, _, s) {coordinate_transformation_mode=\"tf_crop_and_resize\", extrapolation_value=10.0, "
          "mode=\"linear\"}; output y }",
          "graph { input x: f32[1,2,7,7]; const s: f32[4] = [1.0, 1.0, 1.5, 1.5]; y = resize(x, _, s) "
          "{coordinate_transformation_mode=\"align_corners\", mode=\"linear\"}; output y }",
          "graph { input x: f32[1,2,7,7]; const s: f32[4] = [1.0, 1.0, 0.6, 1.5]; y = resize(x, _, s) "
          "{coordinate_transformation_mode=\"align_corners\"}; output y }",
          "graph { input x: f32[1,1,2,4]; const s: i64[2] = [7, 8]; y = resize(x, _, _, s) {axes=[2,3], "
          "keep_aspect_ratio_policy=\"not_larger\"}; output y }",
          "graph { input x: u8[1,1,3,3]; const s: f32[4] = [1.0, 1.0, 2.0, 2.0]; y = resize(x, _, s) "
          "{mode=\"linear\"}; output y }",
          "graph { input x: f32[0,1,3,3]; const s: f32[4] = [1.0, 1.0, 2.0, 2.0]; y = resize(x, _, s); output y }"}},
    {.name = "upsample",
     .onnx = "Upsample",
     .versions = {7, 9},
     .inputs = {{"x"}, {"scales"}},
     .outputs = {{"y"}},
     .attrs = {{"mode", AttrKind::kString}},
     .upgrade = upgrade_upsample,
     .infer = infer_upsample},
}};
}  // namespace peri::ops
