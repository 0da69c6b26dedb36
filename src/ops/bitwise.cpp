// Bitwise and, or, xor, and shifts. A shift by a negative amount or by at least the width leaves only the sign: -1 for
// a negative number shifted right, 0 otherwise.
#include "ops/reference/binary.hpp"

namespace peri::ops {
namespace {
template <auto F>
Status reference(RefCall& call) {
  return int_binary(call, F);
}
Status infer_bits(InferContext& c) { return infer_broadcast(c); }

int64_t bits_and(int64_t a, int64_t b) { return a & b; }
int64_t bits_or(int64_t a, int64_t b) { return a | b; }
int64_t bits_xor(int64_t a, int64_t b) { return a ^ b; }

int64_t shifted(DType t, int64_t x, int64_t by, bool left) {
  const bool all_out = (is_signed(t) && by < 0) || static_cast<uint64_t>(by) >= static_cast<uint64_t>(dtype_bits(t));
  if (left) return all_out ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) << by);
  if (all_out) return is_signed(t) && x < 0 ? -1 : 0;
  return is_signed(t) ? x >> by : static_cast<int64_t>(static_cast<uint64_t>(x) >> by);
}
Status bit_shift(RefCall& call) {
  const bool left = call.node.s("direction") == "LEFT";
  return int_binary(call, [=, t = call.in[0]->dtype](int64_t x, int64_t by) { return shifted(t, x, by, left); });
}
Status infer_shift(InferContext& c) {
  const std::string direction = c.node.s("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    return invalid("bit_shift has an unknown direction").expecting("LEFT or RIGHT").but_found(direction);
  return infer_broadcast(c);
}

OpDef bits_op(std::string_view name, std::string_view onnx, std::vector<int> versions, Status (*infer)(InferContext&),
              Status (*reference)(RefCall&), std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = std::move(versions),
          .inputs = {{"a", kInts}, {"b", kInts, false, false, 0}},
          .outputs = {{"y"}},
          .infer = infer,
          .reference = reference,
          .pull = pull_broadcast,
          .elementwise = true,
          .samples = std::move(samples)};
}
OpDef bit_shift_op() {
  OpDef op = bits_op(
      "bit_shift", "BitShift", {11, 28}, infer_shift, bit_shift,
      {"graph { input a: u8[2,4]; const b: u8[4] = [0, 1, 7, 8]; y = bit_shift(a, b) {direction=\"LEFT\"}; output y }",
       "graph { input a: u64[2,4]; const b: u64[4] = [0, 1, 63, 64]; y = bit_shift(a, b) {direction=\"RIGHT\"}; output "
       "y }",
       "graph { input a: i16[2,5]; const b: i16[5] = [0, 1, 15, 16, -1]; y = bit_shift(a, b) {direction=\"RIGHT\"}; "
       "output y }",
       "graph { input a: i32[2,5]; const b: i32[5] = [0, 1, 31, 32, -1]; y = bit_shift(a, b) {direction=\"LEFT\"}; "
       "output y }"});
  op.attrs = {{"direction", AttrKind::kString, true}};
  return op;
}

#define BITS_SAMPLES(op)                                                       \
  {"graph { input a: i32[2,3]; input b: i32[3]; y = " op "(a, b); output y }", \
   "graph { input a: u8[4]; input b: u8[]; y = " op "(a, b); output y }",      \
   "graph { input a: i64[2,0]; input b: i64[2,1]; y = " op "(a, b); output y }"}
}  // namespace

extern const Entry bitwise_entry;
const Entry bitwise_entry{{
    bits_op("bitwise_and", "BitwiseAnd", {18}, infer_bits, reference<bits_and>, BITS_SAMPLES("bitwise_and")),
    bits_op("bitwise_or", "BitwiseOr", {18}, infer_bits, reference<bits_or>, BITS_SAMPLES("bitwise_or")),
    bits_op("bitwise_xor", "BitwiseXor", {18}, infer_bits, reference<bits_xor>, BITS_SAMPLES("bitwise_xor")),
    bit_shift_op(),
}};
}  // namespace peri::ops
