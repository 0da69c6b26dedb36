// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: y = x / scale + zero_point in a small type, and back.
#include <algorithm>

#include "ops/reference/cost.hpp"
#include "ops/reference/quantized.hpp"
#include "ops/reference/unary.hpp"

namespace peri::ops {
namespace {

Status infer_scaled(InferContext& c, DType to) {
  const Shape& x = c.shape(0);
  const int64_t axis = c.node.i("axis", 1), block = c.node.i("block_size");
  if (block < 0) return invalid("block_size is out of range").expecting(">= 0").but_found(std::to_string(block));
  PERI_TRY(check_scale(c, 1, "the scale", x, axis, block));
  PERI_TRY(check_alike(c, 1, 2));
  c.set(0, to, x);
  return Ok{};
}

Result<DType> type_of(int64_t code, TypeSet among) {
  const DType t = code > 0 && code < kDTypeCount ? static_cast<DType>(code) : DType::kInvalid;
  if (t == DType::kInvalid || !contains(among, t))
    return invalid("the type of the result is none it can have").but_found(std::to_string(code));
  return t;
}

Status infer_quantize(InferContext& c) {
  DType to = DType::kU8;
  if (const int64_t said = c.node.i("output_dtype"); said != 0) {
    PERI_ASSIGN(to, type_of(said, kQuantized));
    if (c.has(2) && c.dtype(2) != to)
      return invalid("output_dtype is not the type of the zero point")
          .expecting(std::string(dtype_name(c.dtype(2))))
          .but_found(std::string(dtype_name(to)));
  }
  if (c.has(2)) to = c.dtype(2);
  PERI_TRY(check_values_of_scale(c.node.in(1), true));
  return infer_scaled(c, to);
}

Status quantize(RefCall& call) {
  const RefTensor &x = *call.in[0], &scale = *call.in[1];
  const RefTensor* zero = call.in.size() > 2 ? call.in[2] : nullptr;
  const ScaleOf at(x.dims, scale.dims, call.node.i("axis", 1), call.node.i("block_size"));
  const int64_t said = call.node.i("precision");
  const DType divided = said > 0 && said < kDTypeCount ? static_cast<DType>(said)
                        : scale.floating()             ? scale.dtype
                                                       : DType::kF32;
  const CastRules rules{call.node.i("saturate", 1) != 0};
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), s = at(p);
    const double quotient = number_at(x, p) / number_at(scale, s);
    // A scale that is a power of two alone says nothing of the division's type.
    const double v = divided == DType::kF8E8M0 ? quotient : round_to(divided, quotient);
    store_quantized(call.out[0], p, v, zero_point_at(zero, s), rules);
  }
  return Ok{};
}

Status infer_dequantize(InferContext& c) {
  DType to = c.dtype(1);
  if (const int64_t said = c.node.i("output_dtype"); said != 0) {
    PERI_ASSIGN(to, type_of(said, kFloats));
  }
  PERI_TRY(check_values_of_scale(c.node.in(1), false));
  return infer_scaled(c, to);
}

Status dequantize(RefCall& call) {
  const RefTensor &x = *call.in[0], &scale = *call.in[1];
  const RefTensor* zero = call.in.size() > 2 ? call.in[2] : nullptr;
  const ScaleOf at(x.dims, scale.dims, call.node.i("axis", 1), call.node.i("block_size"));
  RefTensor& y = call.out[0];
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), s = at(p);
    const double q = number_at(x, p) - static_cast<double>(zero_point_at(zero, s)), v = q * number_at(scale, s);
    y.f[static_cast<size_t>(p)] = v;
    if (call.u > 0)
      y.radius[static_cast<size_t>(p)] =
          rounding(call, 2, v) + (std::isfinite(v) ? std::fabs(q) * (scale.floating() ? scale.r(s) : 0) : 0);
  }
  return Ok{};
}

// Element by element but for the scale and the zero point, which are read as wholes.
bool pull_scaled(const ir::Node&, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  needed->assign(positions.begin(), positions.end());
  return true;
}

// from_bytes and to_bytes: the same element by element, with one scale and one zero point.
Status infer_bytes(InferContext& c, DType to) {
  for (const size_t port : {1, 2})
    if (c.rank(port) != 0) return invalid("takes one scale and one zero point").but_found(shape_text(c.shape(port)));
  c.set(0, to, c.shape(0));
  return Ok{};
}
Status infer_from_bytes(InferContext& c) { return infer_bytes(c, DType::kF32); }
Status infer_to_bytes(InferContext& c) { return infer_bytes(c, c.dtype(2)); }

Status infer_dynamic(InferContext& c) {
  c.set(0, DType::kU8, c.shape(0));
  if (c.out.size() > 1) c.set(1, DType::kF32, {});
  if (c.out.size() > 2) c.set(2, DType::kU8, {});
  return Ok{};
}

// The range of x and zero is cut into 255 steps. In float32, as it is defined.
Status dynamic(RefCall& call) {
  const RefTensor& x = *call.in[0];
  float low = 0, high = 0;
  for (const double v : x.f) {
    low = std::min(low, static_cast<float>(v));
    high = std::max(high, static_cast<float>(v));
  }
  float scale = (high - low) / 255.0F;
  if (scale == 0) scale = 1;
  const int64_t zero = saturated(DType::kU8, static_cast<double>((0.0F - low) / scale));
  for (int64_t p = 0; p < x.numel(); ++p)
    store_quantized(call.out[0], p, static_cast<double>(static_cast<float>(x.f[static_cast<size_t>(p)]) / scale), zero,
                    {});
  if (call.out.size() > 1) {
    call.out[1].f[0] = static_cast<double>(scale);
    if (call.u > 0) {
      double far = 0;
      for (int64_t p = 0; p < x.numel(); ++p) far = std::max(far, x.r(p));
      call.out[1].radius[0] = 2 * far / 255 + 4 * call.u * static_cast<double>(scale);
    }
  }
  if (call.out.size() > 2) call.out[2].i[0] = zero;
  return Ok{};
}

Cost cost(const ir::Node& node) { return cost_per_element(node, 2); }
}  // namespace

extern const Entry quantize_entry;
const Entry quantize_entry{{
    {.name = "quantize_linear",
     .onnx = "QuantizeLinear",
     .versions = {10, 13, 19, 21, 23, 24, 25},
     .inputs = {{"x", kFloats | types({DType::kI32})},
                {"scale", kScales | types({DType::kI32}), false, false, -1, Role::kScale},
                {"zero_point", kQuantized, true}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, false, "1"},
               {"block_size", AttrKind::kInt, false, "0"},
               {"output_dtype", AttrKind::kType, false, "that of the zero point, else u8"},
               {"precision", AttrKind::kType, false, "that of the scale"},
               {"saturate", AttrKind::kInt, false, "1"}},
     .infer = infer_quantize,
     .reference = quantize,
     .pull = pull_scaled,
     .cost = cost,
     .jumps = true,
     .anchor = true,
     .samples =
         {"graph { input x: f32[2,3,5]; const s: f32[] = [0.02]; const z: u8[] = [128]; y = quantize_linear(x, s, z); "
          "output y }",
          "graph { input x: f32[2,3,4]; const s: f32[3] = [0.1, 0.02, 0.5]; const z: i8[3] = [0, -3, 100]; y = "
          "quantize_linear(x, s, z); output y }",
          "graph { input x: f16[4]; const s: f16[] = [0.1]; y = quantize_linear(x, s) {output_dtype=11}; output y }",
          "graph { input x: f32[2,4]; const s: f32[2,2] = [0.1, 0.2, 0.3, 0.4]; y = quantize_linear(x, s) {axis=1, "
          "block_size=2}; output y }",
          "graph { const x: f32[7] = [0.0, -0.0, 2.5, 3.5, inf, -inf, -2.5]; const s: f32[] = [1.0]; const z: i8[] = "
          "[0]; y = quantize_linear(x, s, z) {axis=0}; output y }",
          "graph { input x: f32[0,3]; const s: f32[] = [1.0]; y = quantize_linear(x, s); output y }"}},
    {.name = "dequantize_linear",
     .onnx = "DequantizeLinear",
     .versions = {10, 13, 19, 21, 23, 24, 25},
     .inputs = {{"x", kQuantized | types({DType::kI32})},
                {"scale", kScales, false, false, -1, Role::kScale},
                {"zero_point", kQuantized | types({DType::kI32}), true, false, 0}},
     .outputs = {{"y"}},
     .attrs = {{"axis", AttrKind::kInt, false, "1"},
               {"block_size", AttrKind::kInt, false, "0"},
               {"output_dtype", AttrKind::kType, false, "that of the scale"}},
     .infer = infer_dequantize,
     .reference = dequantize,
     .pull = pull_scaled,
     .cost = cost,
     .anchor = true,
     .samples =
         {"graph { input x: u8[2,3,5]; const s: f32[] = [0.02]; const z: u8[] = [128]; y = dequantize_linear(x, s, z); "
          "output y }",
          "graph { input x: i8[2,3,4]; const s: f32[3] = [0.1, 0.02, 0.5]; const z: i8[3] = [0, -3, 100]; y = "
          "dequantize_linear(x, s, z); output y }",
          "graph { input x: i32[5]; const s: f32[] = [0.1]; y = dequantize_linear(x, s) {axis=0}; output y }",
          "graph { input x: i8[2,4]; input s: f16[2,2]; y = dequantize_linear(x, s) {axis=1, block_size=2}; output y }",
          "graph { input x: u8[0,3]; const s: f32[] = [1.0]; y = dequantize_linear(x, s); output y }"}},
    {.name = "from_bytes",
     .onnx = "",
     .domain = "peri",
     .inputs = {{"x", kBytes},
                {"scale", types({DType::kF32}), false, false, -1, Role::kScale},
                {"zero_point", kBytes, false, false, 0}},
     .outputs = {{"y"}},
     .infer = infer_from_bytes,
     .reference = dequantize,
     .pull = pull_broadcast,
     .cost = cost,
     .elementwise = true,
     .widens = true,
     .samples = {"graph { input x: u8[2,3,5]; const s: f32[] = [0.02]; const z: u8[] = [128]; y = from_bytes(x, s, z); "
                 "output y }",
                 "graph { input x: i8[2,3,4,5]; const s: f32[] = [0.3]; const z: i8[] = [0]; y = from_bytes(x, s, z); "
                 "output y }"}},
    {.name = "to_bytes",
     .onnx = "",
     .domain = "peri",
     .inputs = {{"x", types({DType::kF32})},
                {"scale", types({DType::kF32}), false, false, -1, Role::kScale},
                {"zero_point", kBytes}},
     .outputs = {{"y"}},
     .infer = infer_to_bytes,
     .reference = quantize,
     .pull = pull_broadcast,
     .cost = cost,
     .jumps = true,
     .elementwise = true,
     .samples =
         {"graph { input x: f32[2,3,5]; const s: f32[] = [0.02]; const z: u8[] = [128]; y = to_bytes(x, s, z); "
          "output y }",
          "graph { input x: f32[2,3,4,5]; const s: f32[] = [0.1]; const z: i8[] = [-3]; y = to_bytes(x, s, z); "
          "output y }",
          "graph { const x: f32[7] = [0.0, -0.0, 2.5, 3.5, inf, -inf, -2.5]; const s: f32[] = [1.0]; const z: i8[] "
          "= [0]; y = to_bytes(x, s, z); output y }"}},
    {.name = "dynamic_quantize_linear",
     .onnx = "DynamicQuantizeLinear",
     .versions = {11},
     .inputs = {{"x", types({DType::kF32})}},
     .outputs = {{"y"}, {"y_scale", kAnyType, true}, {"y_zero_point", kAnyType, true}},
     .infer = infer_dynamic,
     .reference = dynamic,
     .cost = cost,
     .jumps = true,
     .samples = {"graph { input x: f32[3,5]; y, s, z = dynamic_quantize_linear(x); output y; output s; output z }",
                 "graph { const x: f32[3] = [0.5, 2.0, 1.0]; y, s, z = dynamic_quantize_linear(x); output y; output s; "
                 "output z }",
                 "graph { const x: f32[2] = [0.0, 0.0]; y, s, z = dynamic_quantize_linear(x); output y; output s }"}},
}};

}  // namespace peri::ops
