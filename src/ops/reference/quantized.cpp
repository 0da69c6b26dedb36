// Scales by position, and rounding into quantised types.
#include "ops/reference/quantized.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/shape/indices.hpp"

namespace peri::ops {

ScaleOf::ScaleOf(const std::vector<int64_t>& x, const std::vector<int64_t>& scale, int64_t axis, int64_t block) {
  one_ = span_of(scale, 0, scale.size()) == 1 && block == 0;
  if (one_ || x.empty()) return;
  const size_t a = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(x.size()) : axis);
  extent_ = std::max<int64_t>(1, x[a]);
  inner_ = std::max<int64_t>(1, span_of(x, a + 1, x.size()));
  block_ = block;
  blocks_ = block > 0 ? scale[a] : 1;
}

Status check_scale(const InferContext& c, size_t port, std::string_view name, const Shape& x, int64_t axis,
                   int64_t block) {
  if (!c.has(port)) return Ok{};
  const Shape& s = c.shape(port);
  const auto differ = [](const Dim& a, const Dim& b) { return a.is_const() && b.is_const() && !(a == b); };
  const auto wrong = [&](const std::string& wanted) {
    return invalid("%s has a wrong shape", std::string(name).c_str()).expecting(wanted).but_found(shape_text(s));
  };
  if (block == 0 && (s.empty() || (s.size() == 1 && s[0].is_const(1)))) return Ok{};
  PERI_ASSIGN(const int64_t at, normalize_axis(axis, x.size()));
  const size_t a = static_cast<size_t>(at);
  if (block == 0) {
    if (s.size() != 1) return wrong("a scalar, or one element for each along the axis");
    return differ(x[a], s[0]) ? wrong("[" + x[a].text() + "]") : Status(Ok{});
  }
  Shape wanted = x;
  wanted[a] = floordiv(x[a] + (block - 1), Dim(block));
  bool same = s.size() == x.size();
  for (size_t d = 0; same && d < x.size(); ++d) same = !differ(s[d], wanted[d]);
  return same ? Status(Ok{}) : wrong(shape_text(wanted));
}

Status check_values_of_scale(const ir::Value* scale, bool divides) {
  if (!scale || !scale->constant) return Ok{};
  const Tensor& t = *scale->constant;
  const DType type = t.dtype();
  if (!is_float(type) || type == DType::kF8E8M0) return Ok{};
  if (type == DType::kF32) {  // scales of blocks are millions of elements, and shapes are inferred after every pass
    uint32_t least = UINT32_MAX, largest = 0;  // magnitudes, in the order of their bits
    for (const uint32_t bits : t.as<uint32_t>()) {
      least = std::min(least, bits & INT32_MAX);
      largest = std::max(largest, bits & INT32_MAX);
    }
    if (largest > 0 && largest < std::bit_cast<uint32_t>(INFINITY) && !(divides && least == 0)) return Ok{};
  }
  int64_t zeros = 0;
  for (int64_t k = 0; k < t.numel(); ++k) {
    const double v = t.f64(k);
    zeros += v == 0;
    if (std::isfinite(v) && !(divides && v == 0)) continue;
    return invalid("element %lld of a scale is no scale", static_cast<long long>(k))
        .expecting(divides ? "finite numbers other than 0, since values are divided by them" : "finite numbers")
        .but_found(format("%g", v));
  }
  if (zeros < std::max<int64_t>(t.numel(), 1)) return Ok{};
  return invalid("all of a scale is 0, so that every value would be 0").expecting("finite numbers, some of them not 0");
}

Status check_alike(const InferContext& c, size_t scale, size_t zero_point) {
  if (!c.has(zero_point)) return Ok{};
  const Shape &s = c.shape(scale), &z = c.shape(zero_point);
  const auto one = [](const Shape& shape) { return shape.empty() || (shape.size() == 1 && shape[0].is_const(1)); };
  if (one(s) && one(z)) return Ok{};
  bool same = s.size() == z.size();
  for (size_t d = 0; same && d < s.size(); ++d) same = !s[d].is_const() || !z[d].is_const() || s[d] == z[d];
  if (same) return Ok{};
  return invalid("the zero point has another shape than the scale").expecting(shape_text(s)).but_found(shape_text(z));
}

void store_quantized(RefTensor& y, int64_t at, double v, int64_t zero_point, const CastRules& rules) {
  const size_t k = static_cast<size_t>(at);
  if (y.floating())
    y.f[k] = float_cast(y.dtype, v, rules);
  else
    y.i[k] = saturated(y.dtype, std::nearbyint(v) + int_value(y.dtype, zero_point));
}

}  // namespace peri::ops
