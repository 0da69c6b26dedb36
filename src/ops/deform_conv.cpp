// DeformConv: a convolution in which every tap reads x, linearly interpolated, at its position plus an offset from an
// input, and scales it by a mask. Elements outside x are 0.
#include <cmath>

#include "ops/reference/cost.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/window.hpp"

namespace peri::ops {
namespace {

Result<WindowSpec> spec_of(const ir::Node& node, const Shape& w) {
  std::vector<int64_t> kernel = node.ints("kernel_shape");
  for (size_t d = 2; d < w.size(); ++d) {
    if (!w[d].is_const()) return unsupported("the kernel of deform_conv must be known").but_found(shape_text(w));
    if (!node.has("kernel_shape")) kernel.push_back(w[d].value());
    if (kernel.size() != w.size() - 2 && node.has("kernel_shape"))
      return invalid("kernel_shape does not fit w").expecting(shape_text(w));
    if (kernel[d - 2] != w[d].value())
      return invalid("kernel_shape does not fit w").expecting(w[d].text()).but_found(std::to_string(kernel[d - 2]));
  }
  return window_spec(node, std::move(kernel));
}

Status expect(const Shape& found, const Shape& want, const char* name) {
  bool same = found.size() == want.size();
  for (size_t d = 0; same && d < want.size(); ++d)
    same = !found[d].is_const() || !want[d].is_const() || found[d] == want[d];
  if (same) return Ok{};
  return invalid("%s has a wrong shape", name).expecting(shape_text(want)).but_found(shape_text(found));
}

Status infer(InferContext& c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  if (x.size() < 3 || w.size() != x.size())
    return invalid("x and w have wrong ranks")
        .expecting("x [batch, channels, spatial...], w [out channels, channels / group, kernel...]")
        .but_found(shape_text(x) + " and " + shape_text(w));
  const int64_t group = c.node.i("group", 1), offsets = c.node.i("offset_group", 1);
  if (group < 1 || offsets < 1) return invalid("group or offset_group is out of range").expecting(">= 1");
  if (!x[1].is_const() || !w[0].is_const() || !w[1].is_const())
    return unsupported("the channels of deform_conv must be known").but_found(shape_text(x) + " and " + shape_text(w));
  if (w[1].value() * group != x[1].value() || w[0].value() % group != 0 || x[1].value() % offsets != 0)
    return invalid("the channels do not fit group and offset_group")
        .expecting(format("w [a multiple of %lld, channels / %lld, ...], channels a multiple of %lld",
                          static_cast<long long>(group), static_cast<long long>(group),
                          static_cast<long long>(offsets)))
        .but_found(shape_text(x) + " and " + shape_text(w));
  PERI_ASSIGN(const WindowSpec spec, spec_of(c.node, w));
  Shape y = {x[0], w[0]}, mask = {x[0], Dim(offsets * spec.window.taps())};
  for (size_t d = 0; d + 2 < x.size(); ++d) {
    PERI_ASSIGN(Dim extent, spec.extent(d, x[d + 2], false));
    mask.push_back(extent);
    y.push_back(std::move(extent));
  }
  Shape offset = mask;
  offset[1] = offset[1] * static_cast<int64_t>(x.size() - 2);
  PERI_TRY(expect(c.shape(2), offset, "offset"));
  if (c.has(3)) PERI_TRY(expect(c.shape(3), {w[0]}, "bias"));
  if (c.has(4)) PERI_TRY(expect(c.shape(4), mask, "mask"));
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

// The elements around a place and their weights: at most 2^rank, those inside x only.
struct Corner {
  int64_t offset;
  double weight;
};
void corners_of(const std::vector<double>& place, const std::vector<int64_t>& dims, std::vector<Corner>* out) {
  out->clear();
  for (size_t bits = 0; bits < size_t{1} << place.size(); ++bits) {
    Corner c{0, 1};
    bool inside = true;
    for (size_t d = 0; d < place.size(); ++d) {
      const double low = std::floor(place[d]), t = place[d] - low;
      const bool second = bits >> d & 1;
      const double at = low + (second ? 1 : 0);
      inside = inside && at >= 0 && at < static_cast<double>(dims[d]);
      c.offset = c.offset * dims[d] + (inside ? static_cast<int64_t>(at) : 0);
      c.weight *= second ? t : 1 - t;
    }
    if (inside) out->push_back(c);
  }
}

struct Geometry {
  Window window;
  std::vector<int64_t> in, out;
  int64_t group, offsets, channels, outputs, x_image, y_image, taps;
  explicit Geometry(const ir::Node& node) : window(window_of(node)) {
    const std::vector<int64_t> x = concrete(*node.in(0)), y = concrete(*node.out());
    in.assign(x.begin() + 2, x.end());
    out.assign(y.begin() + 2, y.end());
    group = node.i("group", 1);
    offsets = node.i("offset_group", 1);
    channels = x[1];
    outputs = y[1];
    x_image = span_of(in, 0, in.size());
    y_image = span_of(out, 0, out.size());
    taps = window.taps();
  }
};

// The sum over taps and channels for one output element.
Near sum_at(const RefCall& call, const Geometry& g, int64_t p) {
  const RefTensor &x = *call.in[0], &w = *call.in[1], &offset = *call.in[2];
  const RefTensor *bias = call.in.size() > 3 ? call.in[3] : nullptr, *mask = call.in.size() > 4 ? call.in[4] : nullptr;
  const size_t rank = g.in.size();
  const int64_t at = p % g.y_image, oc = p / g.y_image % g.outputs, n = p / g.y_image / g.outputs;
  const int64_t per_group = g.channels / g.group, per_offset = g.channels / g.offsets,
                first = oc / (g.outputs / g.group) * per_group;
  std::vector<int64_t> o(rank), k(rank);
  unravel(at, g.out, o);
  std::vector<double> place(rank);
  std::vector<Corner> corners;
  Near v = element(bias, oc, 0);
  double magnitude = std::fabs(v.v), moved = 0;
  for (int64_t tap = 0; tap < g.taps; ++tap) {
    unravel(tap, g.window.kernel, k);
    int64_t held = -1;
    Near scale{1, 0};
    for (int64_t c = first; c < first + per_group; ++c) {
      if (const int64_t part = c / per_offset; part != held) {
        held = part;
        const int64_t row = (n * g.offsets + part) * g.taps + tap;
        for (size_t d = 0; d < rank; ++d) {
          const int64_t from = (row * static_cast<int64_t>(rank) + static_cast<int64_t>(d)) * g.y_image + at;
          place[d] = static_cast<double>(window_at(g.window, d, o[d], k[d])) + offset.f[static_cast<size_t>(from)];
        }
        corners_of(place, g.in, &corners);
        scale = element(mask, row * g.y_image + at, 1);
      }
      const Near weight = times(element(&w, (oc * per_group + c - first) * g.taps + tap, 0), scale);
      for (const Corner& corner : corners) {
        const Near term =
            times(times(element(&x, (n * g.channels + c) * g.x_image + corner.offset, 0), {corner.weight, 0}), weight);
        v.v += term.v;
        v.r += term.r;
        magnitude += std::fabs(term.v);
        moved += std::fabs(weight.v * x.f[static_cast<size_t>((n * g.channels + c) * g.x_image + corner.offset)]);
      }
    }
  }
  double reach = 0;  // a place errs by a rounding of its size, which moves weight between neighbours
  for (int64_t d : g.in) reach += static_cast<double>(d);
  v.r += sum_radius(call.u, g.taps * per_group * 4, magnitude) + call.u * 4 * reach * moved;
  return v;
}

Status reference(RefCall& call) {
  if (call.out[0].numel() == 0) return Ok{};
  const Geometry g(call.node);
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) store(call.out[0], call.position(n), sum_at(call, g, call.position(n)));
  });
  return Ok{};
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const Shape& w = *node.in(1)->type.shape;
  c.flops = 10 * elements_of(*node.out());
  for (size_t d = 1; d < w.size(); ++d) c.flops *= static_cast<double>(w[d].is_const() ? w[d].value() : 1);
  return c;
}

double fan_in(const ir::Node&, std::span<const int64_t> w) {
  double products = 1;
  for (size_t d = 1; d < w.size(); ++d) products *= static_cast<double>(w[d]);
  return products;
}

}  // namespace

extern const Entry deform_conv_entry;
const Entry deform_conv_entry{{
    {.name = "deform_conv",
     .onnx = "DeformConv",
     .versions = {19, 22},
     .inputs = {{"x", kFloats},
                {"w", kFloats, false, false, 0, Role::kWeight},
                {"offset", kFloats, false, false, 0},
                {"bias", kFloats, true, false, 0, Role::kBias},
                {"mask", kFloats, true, false, 0}},
     .outputs = {{"y"}},
     .attrs = {{"dilations", AttrKind::kInts, false, "1 each"},
               {"group", AttrKind::kInt, false, "1"},
               {"kernel_shape", AttrKind::kInts, false, "that of w"},
               {"offset_group", AttrKind::kInt, false, "1"},
               {"pads", AttrKind::kInts, false, "0 each"},
               {"strides", AttrKind::kInts, false, "1 each"}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .jumps = true,  // offsets are data: a place may cross from one pair of elements to the next
     .fan_in = fan_in,
     .samples =
         {"graph { input x: f32[1,2,4,5]; input w: f32[3,2,2,2]; input o: f32[1,8,3,4]; y = deform_conv(x, w, o); "
          "output "
          "y }",
          "graph { input x: f32[2,4,5,5]; input w: f32[4,2,3,3]; input o: f32[2,36,3,3]; input b: f32[4]; input m: "
          "f32[2,18,3,3]; y = deform_conv(x, w, o, b, m) {group=2, offset_group=2, pads=[1,1,1,1], strides=[2,2]}; "
          "output "
          "y }",
          "graph { input x: f16[1,1,6]; input w: f16[1,1,2]; input o: f16[1,2,4]; y = deform_conv(x, w, o) "
          "{dilations=[2]}; output y }",
          "graph { input x: f64[0,1,3,3]; input w: f64[1,1,2,2]; input o: f64[0,8,2,2]; y = deform_conv(x, w, o); "
          "output "
          "y }"}},
}};
}  // namespace peri::ops
