// Cast and cast_like between all numbers, bool and strings. To a float: nearest even (float8: saturating or not; f8e8m0
// by round_mode). To an integer: truncation, then modulo 2^width; NaN gives 0. To bool: not zero.
#include "ops/reference/cast.hpp"

#include <algorithm>
#include <charconv>
#include <clocale>
#include <cstdlib>
#include <limits>

#include "ops/reference/unary.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
// Power of two for f8e8m0: exponents -127..127, code 255 is NaN.
double to_e8m0(double v, const CastRules& rules) {
  if (std::isnan(v) || v < 0) return NAN;
  const double least = 0x1p-127, most = 0x1p127;
  if (v < least) return rules.saturate ? least : NAN;
  if (v > most) return rules.saturate ? most : NAN;
  int e;
  const double fraction = std::frexp(v, &e);  // v = fraction * 2^e, fraction in [0.5, 1)
  const double down = std::ldexp(1.0, e - 1);
  const bool up = rules.round_mode == "up" ? fraction > 0.5 : rules.round_mode == "nearest" && fraction >= 0.75;
  return up ? std::min(2 * down, most) : down;
}

double largest_float8(DType t) { return t == DType::kF8E4M3FN ? 448.0 : t == DType::kF8E4M3FNUZ ? 240.0 : 57344.0; }

}  // namespace

double float_cast(DType t, double v, const CastRules& rules) {
  if (t == DType::kF8E8M0) return to_e8m0(v, rules);
  if (t == DType::kF4E2M1 && std::isnan(v)) return -0.0;  // the format has no NaN; as the node tests have it
  if (contains(kFloat8, t)) {
    const double r = round_to(t, v), largest = largest_float8(t);
    if (std::isnan(v)) return v;
    if (std::fabs(r) <= largest) return r;
    if (rules.saturate) return std::copysign(largest, v);
    return t == DType::kF8E5M2 ? std::copysign(INFINITY, v) : NAN;
  }
  return round_to(t, v);
}

namespace {
constexpr int kTextDigits = 8;  // of a float of any type, as ONNX Runtime writes it

std::string float_text(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v < 0 ? "-INF" : "INF";
  char text[48];
  const auto end = std::to_chars(text, text + sizeof text, v, std::chars_format::general, kTextDigits).ptr;
  return {text, end};
}
std::string int_text(DType t, int64_t v) {
  return t == DType::kU64 ? std::to_string(static_cast<uint64_t>(v)) : std::to_string(v);
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  if (s.size() > 1 && s.front() == '+' && s[1] != '-') s.remove_prefix(1);
  return s;
}
// Decimal, scientific, "NaN", "INF" in any case.
Result<double> parse_float(const std::string& text) {
  const std::string_view s = trimmed(text);
  double v = 0;
  const auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (code == std::errc::result_out_of_range && end == s.data() + s.size()) {
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);  // a point, whatever the process has
    return strtod_l(std::string(s).c_str(), nullptr, plain);
  }
  if (s.empty() || code != std::errc() || end != s.data() + s.size())
    return invalid("cast of a string that is not a number").but_found("'" + text.substr(0, 32) + "'");
  return v;
}
// Decimals are cut off; what no integer of 64 bits is is refused, as it would become another number.
Result<int64_t> parse_int(DType t, const std::string& text) {
  const std::string_view s = trimmed(text);
  int64_t v = 0;
  uint64_t u = 0;
  if (const auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), v);
      code == std::errc() && end == s.data() + s.size() && !s.empty())
    return wrap(t, v);
  if (const auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), u);
      t == DType::kU64 && code == std::errc() && end == s.data() + s.size() && !s.empty())
    return wrap(t, static_cast<int64_t>(u));
  PERI_ASSIGN(const double d, parse_float(text));
  if (!(d >= -0x1p63 && d < (t == DType::kU64 ? 0x1p64 : 0x1p63)))
    return invalid("cast of a string to an integer that it does not fit")
        .expecting("a whole number of 64 bits")
        .but_found("'" + text.substr(0, 32) + "'");
  return int_from(t, d);
}

// An int64 in a float type, rounded once.
double int_to_float(DType to, DType from, int64_t v) {
  if (to == DType::kF32)
    return from == DType::kU64 ? static_cast<float>(static_cast<uint64_t>(v)) : static_cast<float>(v);
  return int_value(from, v);
}
}  // namespace

Status cast_elements(RefCall& call, const CastRules& rules) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    const size_t at = static_cast<size_t>(p);
    if (y.dtype == DType::kString) {
      y.s[at] = x.dtype == DType::kString ? x.s[at] : x.floating() ? float_text(x.f[at]) : int_text(x.dtype, x.i[at]);
    } else if (y.floating()) {
      double v = 0;
      if (x.dtype == DType::kString) {
        PERI_ASSIGN(v, parse_float(x.s[at]));
      } else {
        v = x.floating() ? x.f[at] : int_to_float(y.dtype, x.dtype, x.i[at]);
      }
      y.f[at] = float_cast(y.dtype, v, rules);
      if (const double r = x.floating() ? x.r(p) : 0; r > 0)
        y.radius[at] = r + 2 * unit_roundoff(y.dtype) * std::fabs(y.f[at]);
    } else if (x.dtype == DType::kString) {
      PERI_ASSIGN(y.i[at], parse_int(y.dtype, x.s[at]));
    } else {
      y.i[at] = x.floating() ? int_from(y.dtype, x.f[at]) : wrap(y.dtype, x.i[at]);
    }
  }
  return Ok{};
}

namespace {
CastRules rules_of(const ir::Node& node) { return {node.i("saturate", 1) != 0, node.s("round_mode", "up")}; }

Status infer_as(InferContext& c, DType to) {
  if (!contains(kMovable, to)) return unsupported("a cast to type %s", dtype_name(to).data());
  const std::string mode = c.node.s("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    return invalid("unknown round_mode of a cast").expecting("up, down or nearest").but_found(mode);
  c.set(0, to, c.shape(0));
  if (to == DType::kI64 || to == DType::kI32) {
    content_elementwise(c, [](const std::vector<Dim>& v) { return std::optional(v[0]); }, 1);
  } else if (to == DType::kBool) {
    content_elementwise(c, [](const std::vector<Dim>& v) { return std::optional(Dim(1) - is_equal(v[0], Dim(0))); }, 1);
  }
  return Ok{};
}
Status infer_cast(InferContext& c) {
  const int64_t to = c.node.i("to");
  if (to <= 0 || to >= kDTypeCount) return invalid("a cast to an unknown type").but_found(std::to_string(to));
  return infer_as(c, static_cast<DType>(to));
}
Status infer_cast_like(InferContext& c) { return infer_as(c, c.dtype(1)); }
Status cast(RefCall& call) { return cast_elements(call, rules_of(call.node)); }

bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port == 1) {
    needed->clear();
    return true;
  }  // its type is all that is asked of it
  return pull_same(node, port, positions, needed);
}
}  // namespace

extern const Entry cast_entry;
const Entry cast_entry{{
    {.name = "cast",
     .onnx = "Cast",
     .versions = {6, 9, 13, 19, 21, 23, 24, 25, 28},
     .inputs = {{"x", kMovable}},
     .outputs = {{"y"}},
     .attrs = {{"to", AttrKind::kType, true},
               {"saturate", AttrKind::kInt, false, "1"},
               {"round_mode", AttrKind::kString, false, "up"}},
     .infer = infer_cast,
     .reference = cast,
     .pull = pull,
     .jumps = true,
     .elementwise = true,
     .moves = true,
     .converts = true,
     .samples = {"graph { input x: f32[2,3]; y = cast(x) {to=3}; output y }",
                 "graph { input x: f32[2,3]; y = cast(x) {to=14}; output y }",
                 "graph { input x: i64[2,3]; y = cast(x) {to=1}; output y }",
                 "graph { input x: i32[5]; y = cast(x) {to=11}; output y }",
                 "graph { input x: bool[3]; y = cast(x) {to=1}; output y }",
                 "graph { const x: f32[4] = [0.0, -0.0, nan, 0.5]; y = cast(x) {to=23}; output y }",
                 "graph { const x: f32[4] = [1.5, -2.75, 3e9, -1e20]; y = cast(x) {to=2}; output y }",
                 "graph { input x: f64[0]; y = cast(x) {to=4}; output y }",
                 "graph { const x: f32[6] = [500.0, -500.0, inf, nan, 0.001, -0.0]; y = cast(x) {to=5}; output y }",
                 "graph { const x: f32[6] = [500.0, -500.0, inf, nan, 0.001, -0.0]; y = cast(x) {to=5, saturate=0}; "
                 "output y }"}},
    {.name = "cast_like",
     .onnx = "CastLike",
     .versions = {15, 19, 21, 23, 24, 25},
     .inputs = {{"x", kMovable}, {"target_type", kMovable}},
     .outputs = {{"y"}},
     .attrs = {{"saturate", AttrKind::kInt, false, "1"}, {"round_mode", AttrKind::kString, false, "up"}},
     .infer = infer_cast_like,
     .reference = cast,
     .pull = pull,
     .jumps = true,
     .elementwise = true,
     .moves = true,
     .converts = true,
     .samples = {"graph { input x: f32[2,3]; input t: f16[1]; y = cast_like(x, t); output y }",
                 "graph { input x: i32[2,3]; input t: bool[]; y = cast_like(x, t); output y }"}},
}};
}  // namespace peri::ops
