// Abs, neg and sign on signed numbers (integers wrap: abs of the lowest is the lowest), bitwise_not.
#include "ops/reference/pointwise.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
int64_t negated(int64_t x) { return static_cast<int64_t>(uint64_t{0} - static_cast<uint64_t>(x)); }

Status abs_reference(RefCall& call) {
  if (call.in[0]->floating()) return float_reference<[](double x) { return std::fabs(x); }, 0>(call);
  return integer_pointwise(call, [t = call.in[0]->dtype](int64_t x) { return is_signed(t) && x < 0 ? negated(x) : x; });
}
Status neg_reference(RefCall& call) {
  if (call.in[0]->floating()) return float_reference<[](double x) { return -x; }, 0>(call);
  return integer_pointwise(call, negated);
}
Status sign_reference(RefCall& call) {
  if (call.in[0]->floating())
    return float_reference<[](double x) { return (x > 0) ? 1.0 : x < 0 ? -1.0 : x; }, 0>(call);
  return integer_pointwise(
      call, [t = call.in[0]->dtype](int64_t x) { return int64_t{int_less(t, 0, x)} - int64_t{int_less(t, x, 0)}; });
}
Status not_reference(RefCall& call) {
  return integer_pointwise(call, [](int64_t x) { return ~x; });
}

Status infer_neg(InferContext& c) {
  PERI_TRY(infer_same(c));
  content_elementwise(c, [](const std::vector<Dim>& v) -> std::optional<Dim> { return Dim(0) - v[0]; });
  return Ok{};
}
Status infer_abs(InferContext& c) {
  PERI_TRY(infer_same(c));
  content_elementwise(c, [](const std::vector<Dim>& v) -> std::optional<Dim> { return max(v[0], Dim(0) - v[0]); });
  return Ok{};
}

OpDef signed_op(std::string_view name, std::string_view onnx, std::vector<int> versions, TypeSet in,
                Status (*infer)(InferContext&), Status (*reference)(RefCall&), std::vector<std::string_view> samples) {
  OpDef op = float_op(name, onnx, std::move(versions), reference, std::move(samples));
  op.inputs = {{"x", in}};
  op.infer = infer;
  return op;
}
#define SIGNED_SAMPLES(op)                                                                                        \
  {"graph { input x: f32[2,3,5]; y = " op "(x); output y }", "graph { input x: f16[]; y = " op "(x); output y }", \
   "graph { input x: i64[0,3]; y = " op "(x); output y }",                                                        \
   "graph { const x: i8[3] = [-128, 0, 127]; y = " op "(x); output y }",                                          \
   "graph { const x: f32[6] = [0.0, -0.0, -2.5, inf, -inf, nan]; y = " op "(x); output y }"}
}  // namespace

extern const Entry sign_entry;
const Entry sign_entry{{
    signed_op("abs", "Abs", {6, 13}, kNumbers, infer_abs, abs_reference, SIGNED_SAMPLES("abs")),
    signed_op("neg", "Neg", {6, 13}, kFloats | kSignedInts, infer_neg, neg_reference, SIGNED_SAMPLES("neg")),
    [] {
      OpDef op = signed_op("sign", "Sign", {9, 13}, kNumbers, infer_same, sign_reference, SIGNED_SAMPLES("sign"));
      op.jumps = true;
      return op;
    }(),
    signed_op("bitwise_not", "BitwiseNot", {18}, kInts, infer_same, not_reference,
              {"graph { input x: i32[2,3]; y = bitwise_not(x); output y }",
               "graph { const x: u8[2] = [0, 255]; y = bitwise_not(x); output y }",
               "graph { input x: u64[0]; y = bitwise_not(x); output y }"}),
}};
}  // namespace peri::ops
