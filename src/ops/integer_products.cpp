// MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv: sums of products of small integers minus their zero points,
// as int32, or scaled and rounded to the type of the result's zero point. Sums are exact.
#include <algorithm>

#include "ops/reference/cost.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/quantized.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/window.hpp"

namespace peri::ops {
namespace {

// Where a product's arguments stand among the inputs. kNone: the operator has none.
constexpr size_t kNone = 99;
struct Ports {
  size_t a, a_zero, b, b_zero;
  size_t a_scale = kNone, b_scale = kNone, y_scale = kNone, y_zero = kNone, bias = kNone;
};
constexpr Ports kPlain{0, 2, 1, 3}, kScaled{0, 2, 3, 5, 1, 4, 6, 7, 8};

const RefTensor* port_of(const RefCall& call, size_t port) { return port < call.in.size() ? call.in[port] : nullptr; }

// Index of the scale or zero point for row, column or channel `at` of an image: one for all, one each, or one each per
// image.
size_t place(const RefTensor& t, int64_t at, int64_t image, int64_t count) {
  if (t.numel() == 1) return 0;
  return static_cast<size_t>(t.numel() == count ? at : image * count + at);
}
// A side of a product: which of its rows or columns, of how many, in which of its own images.
struct At {
  int64_t at = 0, image = 0, count = 1;
};
double scale_at(const RefTensor* t, const At& of) {
  return number_at(*t, static_cast<int64_t>(place(*t, of.at, of.image, of.count)));
}
int64_t zero_at(const RefTensor* t, const At& of) { return t ? t->i[place(*t, of.at, of.image, of.count)] : 0; }

// y[p] from the exact sum and what is added to it: an int32 in its units, or a float32 that is none of them.
void store_sum(RefCall& call, const Ports& ports, int64_t p, int64_t sum, const At& a, const At& b, const At& y,
               double added = 0) {
  if (ports.y_scale == kNone) {
    call.out[0].i[static_cast<size_t>(p)] = wrap(DType::kI32, sum);
    return;
  }
  const double unit = scale_at(call.in[ports.a_scale], a) * scale_at(call.in[ports.b_scale], b),
               factor = unit / scale_at(call.in[ports.y_scale], y);
  const double whole = static_cast<double>(sum) + (added == 0 ? 0 : added / unit);
  store_quantized(call.out[0], p, whole * factor, zero_at(call.in[ports.y_zero], y), {});
}

// Scales and zero points of one side: a single element, a list of `each`, or `full` with an axis of one element.
Status check_side(const InferContext& c, std::initializer_list<size_t> ports, const Dim& each, const Shape& full) {
  for (const size_t port : ports) {
    if (port == kNone || !c.has(port)) continue;
    if (is_float(c.dtype(port))) PERI_TRY(check_values_of_scale(c.node.in(port), port == kScaled.y_scale));
    const Shape& s = c.shape(port);
    const auto is = [&](const Shape& wanted) {
      bool same = s.size() == wanted.size();
      for (size_t d = 0; same && d < s.size(); ++d)
        same = !s[d].is_const() || !wanted[d].is_const() || s[d] == wanted[d];
      return same;
    };
    if (s.empty() || is({Dim(1)}) || is({each}) || (!full.empty() && is(full))) continue;
    return invalid("a scale or zero point of input %zu has a wrong shape", port)
        .expecting("one element or [" + each.text() + "]" + (full.empty() ? "" : " or " + shape_text(full)))
        .but_found(shape_text(s));
  }
  return Ok{};
}
// The shape with one element along axis `from_end`, counted from the last.
Shape without(Shape s, size_t from_end) {
  s[s.size() - 1 - from_end] = Dim(1);
  return s;
}

// ---- products of matrices ------------------------------------------------------------------------------------------
template <const Ports& kPorts>
Status infer_product(InferContext& c) {
  const Shape &a = c.shape(kPorts.a), &b = c.shape(kPorts.b);
  if (a.size() < 1 || b.size() < 1) return invalid("%s is a scalar", a.empty() ? "a" : "b").expecting("rank >= 1");
  Shape left = a, right = b;
  if (a.size() == 1) left.insert(left.begin(), Dim(1));
  if (b.size() == 1) right.push_back(Dim(1));
  const Dim &k = left.back(), &l = right[right.size() - 2];
  if (k.is_const() && l.is_const() && !(k == l))
    return invalid("the inner dimensions differ").expecting(k.text()).but_found(l.text() + " in " + shape_text(b));
  PERI_ASSIGN(Shape y, broadcast(Shape(left.begin(), left.end() - 2), Shape(right.begin(), right.end() - 2)));
  Shape all = y;
  all.push_back(left[left.size() - 2]);
  all.push_back(right.back());
  PERI_TRY(check_side(c, {kPorts.a_scale, kPorts.a_zero}, left[left.size() - 2], without(left, 0)));
  PERI_TRY(check_side(c, {kPorts.b_scale, kPorts.b_zero}, right.back(), without(right, 1)));
  PERI_TRY(check_side(c, {kPorts.y_scale, kPorts.y_zero}, left[left.size() - 2], without(all, 0)));
  if (a.size() > 1) y.push_back(left[left.size() - 2]);
  if (b.size() > 1) y.push_back(right.back());
  c.set(0, kPorts.y_zero == kNone ? DType::kI32 : c.dtype(kPorts.y_zero), std::move(y));
  return Ok{};
}

template <const Ports& kPorts>
Status product(RefCall& call) {
  const RefTensor &a = *call.in[kPorts.a], &b = *call.in[kPorts.b];
  const RefTensor *az = port_of(call, kPorts.a_zero), *bz = port_of(call, kPorts.b_zero);
  std::vector<int64_t> left = a.dims, right = b.dims;
  if (left.size() == 1) left.insert(left.begin(), 1);
  if (right.size() == 1) right.push_back(1);
  const int64_t m = left[left.size() - 2], k = left.back(), n = right.back();
  std::vector<int64_t> batch = call.out[0].dims;
  batch.resize(batch.size() - (a.dims.size() > 1) - (b.dims.size() > 1));
  const std::vector<int64_t> as = broadcast_strides(std::span(left).first(left.size() - 2), batch),
                             bs = broadcast_strides(std::span(right).first(right.size() - 2), batch);
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t p = call.position(at), row = p / n % m, column = p % n, image = p / (m * n);
      const At of_a{row, broadcast_index(image, batch, as), m}, of_b{column, broadcast_index(image, batch, bs), n};
      const int64_t from_a = (of_a.image * m + row) * k, from_b = of_b.image * k * n + column;
      const int64_t za = zero_at(az, of_a), zb = zero_at(bz, of_b);
      int64_t sum = 0;
      for (int64_t e = 0; e < k; ++e)
        sum += (a.i[static_cast<size_t>(from_a + e)] - za) * (b.i[static_cast<size_t>(from_b + e * n)] - zb);
      store_sum(call, kPorts, p, sum, of_a, of_b, {row, image, m});
    }
  });
  return Ok{};
}

// ---- convolutions --------------------------------------------------------------------------------------------------
Result<WindowSpec> window_spec_of(const ir::Node& node, const Shape& w) {
  std::vector<int64_t> kernel;
  for (size_t d = 2; d < w.size(); ++d) kernel.push_back(w[d].is_const() ? w[d].value() : 1);
  return window_spec(node, std::move(kernel));
}

template <const Ports& kPorts>
Status infer_conv(InferContext& c) {
  const Shape &x = c.shape(kPorts.a), &w = c.shape(kPorts.b);
  if (x.size() < 3 || w.size() != x.size())
    return invalid("x and w have wrong ranks")
        .expecting("[batch, channels, spatial...] both")
        .but_found(shape_text(x) + " and " + shape_text(w));
  PERI_ASSIGN(const WindowSpec spec, window_spec_of(c.node, w));
  const int64_t group = c.node.i("group", 1);
  if (group < 1 || (w[0].is_const() && w[0].value() % group != 0))
    return invalid("group does not divide the output channels").but_found(std::to_string(group));
  if (x[1].is_const() && w[1].is_const() && !(w[1] * group == x[1]))
    return invalid("the channels of x, w and group do not match")
        .expecting((w[1] * group).text() + " channels in x")
        .but_found(shape_text(x));
  PERI_TRY(check_side(c, {kPorts.a_scale, kPorts.a_zero, kPorts.y_scale, kPorts.y_zero}, Dim(1), {}));
  PERI_TRY(check_side(c, {kPorts.b_scale, kPorts.b_zero}, w[0], {}));
  if (kPorts.bias != kNone && c.has(kPorts.bias) &&
      (c.rank(kPorts.bias) != 1 ||
       (c.shape(kPorts.bias)[0].is_const() && w[0].is_const() && !(c.shape(kPorts.bias)[0] == w[0]))))
    return invalid("the bias has a wrong shape")
        .expecting("[" + w[0].text() + "]")
        .but_found(shape_text(c.shape(kPorts.bias)));
  Shape y = {x[0], w[0]};
  for (size_t d = 2; d < x.size(); ++d) {
    PERI_ASSIGN(Dim extent, spec.extent(d - 2, x[d], false));
    y.push_back(std::move(extent));
  }
  c.set(0, kPorts.y_zero == kNone ? DType::kI32 : c.dtype(kPorts.y_zero), std::move(y));
  return Ok{};
}

template <const Ports& kPorts>
Status conv(RefCall& call) {
  const RefTensor &x = *call.in[kPorts.a], &w = *call.in[kPorts.b];
  const RefTensor *xz = port_of(call, kPorts.a_zero), *wz = port_of(call, kPorts.b_zero),
                  *bias = port_of(call, kPorts.bias);
  RefTensor& y = call.out[0];
  if (y.numel() == 0) return Ok{};
  PERI_ASSIGN(const WindowSpec spec, window_spec_of(call.node, Shape(w.dims.begin(), w.dims.end())));
  const std::vector<int64_t> in(x.dims.begin() + 2, x.dims.end()), out(y.dims.begin() + 2, y.dims.end());
  const Window window = spec.resolve(in, out);
  const int64_t outputs = w.dims[0], each = w.dims[1], per_group = outputs / call.node.i("group", 1),
                image = span_of(in, 0, in.size()), taps = window.taps();
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> o(y.dims.size());
    for (int64_t at = begin; at < end; ++at) {
      const int64_t p = call.position(at);
      unravel(p, y.dims, o);
      const int64_t channel = o[1], first = o[0] * x.dims[1] + channel / per_group * each;
      const At of_w{channel, 0, outputs};
      const int64_t za = zero_at(xz, {}), zb = zero_at(wz, of_w);
      const bool in_units = bias && !is_float(bias->dtype);
      int64_t sum = in_units ? bias->i[static_cast<size_t>(channel)] : 0;
      each_tap(window, in, o.data() + 2, [&](int64_t offset, int64_t tap) {
        for (int64_t c = 0; c < each; ++c)
          sum += (x.i[static_cast<size_t>((first + c) * image + offset)] - za) *
                 (w.i[static_cast<size_t>((channel * each + c) * taps + tap)] - zb);
      });
      store_sum(call, kPorts, p, sum, {}, of_w, {}, bias && !in_units ? number_at(*bias, channel) : 0);
    }
  });
  return Ok{};
}

template <const Ports& kPorts, bool kConv>
Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const Shape &a = *node.in(kPorts.a)->type.shape, &b = *node.in(kPorts.b)->type.shape;
  c.flops = 2 * elements_of(*node.out());
  const auto times_dim = [&](const Dim& d) { c.flops *= d.is_const() ? static_cast<double>(d.value()) : 1; };
  if (!kConv) times_dim(a.back());
  for (size_t d = 1; kConv && d < b.size(); ++d) times_dim(b[d]);
  return c;
}

const std::vector<AttrSpec> kConvAttrs = {{"auto_pad", AttrKind::kString, false, "NOTSET"},
                                          {"dilations", AttrKind::kInts, false, "1 each"},
                                          {"group", AttrKind::kInt, false, "1"},
                                          {"kernel_shape", AttrKind::kInts, false, "that of w"},
                                          {"pads", AttrKind::kInts, false, "0 each"},
                                          {"strides", AttrKind::kInts, false, "1 each"}};

std::vector<Port> plain_ports(std::string_view a, std::string_view b) {
  return {{a, kBytes}, {b, kBytes}, {"a_zero_point", kBytes, true, false, 0}, {"b_zero_point", kBytes, true, false, 1}};
}
std::vector<Port> scaled_ports(std::string_view a, std::string_view b) {
  return {{a, kBytes},
          {"a_scale", kFloats, false, false, -1, Role::kScale},
          {"a_zero_point", kBytes, false, false, 0},
          {b, kBytes},
          {"b_scale", kFloats, false, false, -1, Role::kScale},
          {"b_zero_point", kBytes, false, false, 3},
          {"y_scale", kFloats, false, false, -1, Role::kScale},
          {"y_zero_point", kBytes}};
}

std::vector<Port> with_bias(std::vector<Port> ports) {
  // float32 is what fuse_quantized makes of a bias that was not quantised: numbers, in no unit.
  ports.push_back({"offsets", types({DType::kI32, DType::kF32}), true});
  return ports;
}
}  // namespace

extern const Entry integer_products_entry;
const Entry integer_products_entry{{
    {.name = "matmul_integer",
     .onnx = "MatMulInteger",
     .versions = {10},
     .inputs = plain_ports("a", "b"),
     .outputs = {{"y"}},
     .infer = infer_product<kPlain>,
     .reference = product<kPlain>,
     .cost = cost<kPlain, false>,
     .anchor = true,
     .samples =
         {"graph { input a: u8[2,3,4]; input b: i8[4,5]; y = matmul_integer(a, b); output y }",
          "graph { input a: u8[3,4]; const b: i8[4,2] = [1, -2, 3, 4, 5, 6, -7, 8]; const z: u8[] = [7]; const w: "
          "i8[2] = [1, -1]; y = matmul_integer(a, b, z, w); output y }",
          "graph { input a: i8[0,4]; input b: i8[4,5]; y = matmul_integer(a, b); output y }"}},
    {.name = "conv_integer",
     .onnx = "ConvInteger",
     .versions = {10},
     .inputs = plain_ports("x", "filters"),
     .outputs = {{"y"}},
     .attrs = kConvAttrs,
     .infer = infer_conv<kPlain>,
     .reference = conv<kPlain>,
     .cost = cost<kPlain, true>,
     .anchor = true,
     .samples = {"graph { input x: u8[1,2,5,5]; input w: i8[4,1,3,3]; const z: u8[] = [3]; y = conv_integer(x, w, z) "
                 "{group=2, pads=[1,1,1,1], strides=[2,2]}; output y }",
                 "graph { input x: i8[2,3,7]; input w: i8[2,3,3]; y = conv_integer(x, w) {dilations=[2]}; output y }",
                 "graph { input x: i8[0,3,7]; input w: i8[2,3,3]; y = conv_integer(x, w); output y }"}},
    {.name = "qlinear_matmul",
     .onnx = "QLinearMatMul",
     .versions = {10, 21},
     .inputs = scaled_ports("a", "b"),
     .outputs = {{"y"}},
     .infer = infer_product<kScaled>,
     .reference = product<kScaled>,
     .cost = cost<kScaled, false>,
     .anchor = true,
     .samples =
         {"graph { input a: u8[3,4]; const s: f32[] = [0.01]; const z: u8[] = [120]; input b: i8[4,2]; const t: "
          "f32[] = [0.02]; const v: i8[] = [0]; const q: f32[] = [0.05]; const w: u8[] = [100]; y = "
          "qlinear_matmul(a, s, z, b, t, v, q, w); output y }",
          "graph { input a: i8[2,3,4]; const s: f32[] = [0.01]; const z: i8[] = [1]; input b: i8[2,4,2]; const t: "
          "f32[2] = [0.02, 0.5]; const v: i8[2] = [0, 3]; const q: f32[] = [0.25]; const w: i8[] = [-5]; y = "
          "qlinear_matmul(a, s, z, b, t, v, q, w); output y }"}},
    {.name = "qlinear_conv",
     .onnx = "QLinearConv",
     .versions = {10},
     .inputs = with_bias(scaled_ports("x", "filters")),
     .outputs = {{"y"}},
     .attrs = kConvAttrs,
     .infer = infer_conv<kScaled>,
     .reference = conv<kScaled>,
     .cost = cost<kScaled, true>,
     .anchor = true,
     .samples =
         {"graph { input x: u8[1,2,5,5]; const s: f32[] = [0.01]; const z: u8[] = [120]; input w: i8[3,2,3,3]; "
          "const t: f32[3] = [0.02, 0.5, 0.1]; const v: i8[3] = [0, 1, 2]; const q: f32[] = [0.25]; const o: u8[] "
          "= [100]; const b: i32[3] = [5, -300, 40]; y = qlinear_conv(x, s, z, w, t, v, q, o, b) "
          "{pads=[1,1,1,1]}; output y }",
          "graph { input x: i8[1,2,5]; const s: f32[] = [0.01]; const z: i8[] = [12]; input w: i8[2,1,3]; const t: "
          "f32[] = [0.02]; const v: i8[] = [0]; const q: f32[] = [0.25]; const o: i8[] = [10]; y = "
          "qlinear_conv(x, s, z, w, t, v, q, o) {group=2}; output y }",
          "graph { input x: u8[1,2,5,5]; const s: f32[] = [0.01]; const z: u8[] = [120]; input w: i8[3,2,3,3]; "
          "const t: f32[3] = [0.02, 0.5, 0.1]; const v: i8[3] = [0, 1, 2]; const q: f32[] = [0.25]; const o: u8[] "
          "= [100]; const b: f32[3] = [0.3, -7.77, 1e-9]; y = qlinear_conv(x, s, z, w, t, v, q, o, b); output y }"}},
}};

}  // namespace peri::ops
