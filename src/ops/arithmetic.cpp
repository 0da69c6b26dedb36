// Add, sub, mul, div, mod with broadcasting. Integers wrap; integer division truncates towards zero; a division of an
// integer by zero, which has no defined answer, gives 0.
#include "ops/reference/binary.hpp"

namespace peri::ops {
namespace {
Status add(RefCall& call) {
  if (!call.in[0]->floating()) return int_binary(call, wrap_add);
  return float_binary(call, 1, [](Term a, Term b) { return Term{a.value + b.value, a.radius + b.radius}; });
}
Status sub(RefCall& call) {
  if (!call.in[0]->floating()) return int_binary(call, wrap_sub);
  return float_binary(call, 1, [](Term a, Term b) { return Term{a.value - b.value, a.radius + b.radius}; });
}
Status mul(RefCall& call) {
  if (!call.in[0]->floating()) return int_binary(call, wrap_mul);
  return float_binary(call, 1, [](Term a, Term b) {
    return Term{a.value * b.value, std::fabs(a.value) * b.radius + std::fabs(b.value) * a.radius + a.radius * b.radius};
  });
}

int64_t int_div(DType t, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (t == DType::kU64) return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  return b == -1 ? wrap_sub(0, a) : a / b;
}
Status div(RefCall& call) {
  if (!call.in[0]->floating())
    return int_binary(call, [t = call.in[0]->dtype](int64_t a, int64_t b) { return int_div(t, a, b); });
  // 3: a multiplication by the reciprocal is allowed.
  return float_binary(call, 3, [](Term a, Term b) {
    const double v = a.value / b.value;
    if (a.radius == 0 && b.radius == 0) return Term{v, 0};
    const double room = std::fabs(b.value) - b.radius;
    return Term{v, room > 0 ? (a.radius + std::fabs(v) * b.radius) / room : INFINITY};
  });
}

// Remainder with the sign of b (floor) or of a (truncation).
int64_t int_mod(DType t, int64_t a, int64_t b, bool truncate) {
  if (b == 0) return 0;
  if (t == DType::kU64) return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  if (b == -1) return 0;
  const int64_t r = a % b;
  return !truncate && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double float_mod(double a, double b, bool truncate) {
  const double r = std::fmod(a, b);
  if (truncate || std::isnan(r)) return r;
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
Status mod(RefCall& call) {
  const bool truncate = call.node.i("fmod", 0) != 0;
  if (!call.in[0]->floating())
    return int_binary(call, [=, t = call.in[0]->dtype](int64_t a, int64_t b) { return int_mod(t, a, b, truncate); });
  return float_binary(call, 2, [=](Term a, Term b) {
    const double v = float_mod(a.value, b.value, truncate);
    // The quotient scales the error of b; implementations that form a - q * b round at the size of a.
    return Term{v, a.radius + std::fabs(std::trunc(a.value / b.value)) * b.radius};
  });
}

Status infer_add(InferContext& c) {
  return infer_binary_content(c, [](const Dim& a, const Dim& b) { return std::optional(a + b); });
}
Status infer_sub(InferContext& c) {
  return infer_binary_content(c, [](const Dim& a, const Dim& b) { return std::optional(a - b); });
}
Status infer_mul(InferContext& c) {
  return infer_binary_content(c, [](const Dim& a, const Dim& b) { return std::optional(a * b); });
}
Status infer_div(InferContext& c) { return infer_binary_content(c, truncating_div); }
Status infer_mod(InferContext& c) {
  const bool truncate = c.node.i("fmod", 0) != 0;
  return infer_binary_content(c, [=](const Dim& a, const Dim& b) -> std::optional<Dim> {
    // By what may be 0 the run tells the remainder: a size has none.
    const bool divides = b.is_const() ? !b.is_const(0) : provably_at_least(b, 1);
    if (!truncate) return divides ? std::optional(peri::mod(a, b)) : std::nullopt;
    const std::optional<Dim> q = truncating_div(a, b);
    return q ? std::optional(a - *q * b) : std::nullopt;
  });
}

OpDef binary(std::string_view name, std::string_view onnx, std::vector<int> versions, Status (*infer)(InferContext&),
             Status (*reference)(RefCall&), std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = std::move(versions),
          .inputs = {{"a", kNumbers}, {"b", kNumbers, false, false, 0}},
          .outputs = {{"y"}},
          .infer = infer,
          .reference = reference,
          .pull = pull_broadcast,
          .elementwise = true,
          .samples = std::move(samples)};
}
OpDef mod_op() {
  OpDef op = binary(
      "mod", "Mod", {10, 13, 28}, infer_mod, mod,
      {"graph { input a: i32[2,5]; const b: i32[5] = [3, -3, 7, -7, 1]; y = mod(a, b); output y }",
       "graph { input a: i8[2,5]; const b: i8[5] = [3, -3, 7, -7, -1]; y = mod(a, b) {fmod=1}; output y }",
       "graph { input a: f32[2,5]; const b: f32[5] = [0.3, -0.3, 1.5, -7.0, inf]; y = mod(a, b) {fmod=1}; output y }",
       "graph { input a: f32[2,5]; const b: f32[5] = [0.3, -0.3, 1.5, -7.0, 0.0]; y = mod(a, b); output y }",
       "graph { input a: u64[3]; const b: u64[1] = [10]; y = mod(a, b); output y }"});
  op.attrs = {{"fmod", AttrKind::kInt, false, "0"}};
  op.jumps = true;
  return op;
}

#define ARITHMETIC_SAMPLES(op)                                                                                        \
  {"graph { input a: f32[2,3,5]; input b: f32[2,3,5]; y = " op "(a, b); output y }",                                  \
   "graph { input a: f32[2,1,5]; input b: f32[3,1]; y = " op "(a, b); output y }",                                    \
   "graph { input a: f16[2,3]; input b: f16[]; y = " op "(a, b); output y }",                                         \
   "graph { input a: f32[0,3]; input b: f32[1,3]; y = " op "(a, b); output y }",                                      \
   "graph { input a: i64[4]; const b: i64[4] = [3, -2, 1, 5]; y = " op "(a, b); output y }",                          \
   "graph { const a: i8[4] = [127, -128, -128, 100]; const b: i8[4] = [1, -1, 1, 100]; y = " op "(a, b); output y }", \
   "graph { const a: u64[2] = [18446744073709551615, 5]; const b: u64[2] = [2, 7]; y = " op "(a, b); output y }",     \
   "graph { const a: f32[6] = [inf, inf, nan, 0.0, -0.0, 3e38]; const b: f32[6] = [-inf, 0.0, 1.0, -1.0, 2.0, "       \
   "3e38]; y = " op "(a, b); output y }"}
}  // namespace

extern const Entry arithmetic_entry;
const Entry arithmetic_entry{{
    binary("add", "Add", {7, 13, 14}, infer_add, add, ARITHMETIC_SAMPLES("add")),
    binary("sub", "Sub", {7, 13, 14}, infer_sub, sub, ARITHMETIC_SAMPLES("sub")),
    binary("mul", "Mul", {7, 13, 14}, infer_mul, mul, ARITHMETIC_SAMPLES("mul")),
    binary("div", "Div", {7, 13, 14}, infer_div, div, ARITHMETIC_SAMPLES("div")),
    mod_op(),
}};
}  // namespace peri::ops
