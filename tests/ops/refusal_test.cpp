// What breaks the rules of an op of shape, layout or arithmetic is refused with what was expected.
#include <string>

#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

TEST(Refusals, BadShapesAxesAndAttributes) {
  for (std::string_view text : {
           "graph { input x: f32[2,3]; const s: i64[1] = [7]; y = reshape(x, s); output y }",
           "graph { input x: f32[2,3]; const s: i64[2] = [-1, -1]; y = reshape(x, s); output y }",
           "graph { input x: f32[2,3]; const s: i64[3] = [2, 3, 0]; y = reshape(x, s); output y }",
           "graph { input x: f32[0,3]; const s: i64[2] = [0, -1]; y = reshape(x, s) {allowzero=1}; output y }",
           "graph { input x: f32[2,3]; const s: i64[2] = [4, -1]; y = reshape(x, s); output y }",
           "graph { input x: f32[2,3]; const s: i64[2] = [-2, -3]; y = reshape(x, s); output y }",
           "graph { input x: f32[2,3]; y = flatten(x) {axis=3}; output y }",
           "graph { input x: f32[2,3]; const a: i64[1] = [0]; y = squeeze(x, a); output y }",
           "graph { input x: f32[2,3]; const a: i64[2] = [0, 0]; y = unsqueeze(x, a); output y }",
           "graph { input x: f32[2,3]; const a: i64[1] = [4]; y = unsqueeze(x, a); output y }",
           "graph { input x: f32[2,3]; y = transpose(x) {perm=[0, 0]}; output y }",
           "graph { input x: f32[2,3]; y = transpose(x) {perm=[0]}; output y }",
           "graph { input x: f32[2,3]; const s: i64[2] = [4, 3]; y = expand(x, s); output y }",
           "graph { input x: f32[2,3]; const r: i64[1] = [2]; y = tile(x, r); output y }",
           "graph { input x: f32[2,3]; const r: i64[2] = [-1, 1]; y = tile(x, r); output y }",
           "graph { input a: f32[2,3]; input b: f32[3,3]; y = concat(a, b) {axis=1}; output y }",
           "graph { input a: f32[2,3]; input b: f32[2]; y = concat(a, b) {axis=0}; output y }",
           "graph { input a: f32[2,3]; input b: f16[2,3]; y = concat(a, b) {axis=0}; output y }",
           "graph { input a: f32[]; y = concat(a) {axis=0}; output y }",
           "graph { input a: f32[2,3]; y = concat(a); output y }",
           "graph { input x: f32[5]; const s: i64[2] = [2, 2]; a, b = split(x, s); output a; output b }",
           "graph { input x: f32[5]; const s: i64[2] = [6, -1]; a, b = split(x, s); output a; output b }",
           "graph { input x: f32[5]; const s: i64[2] = [9223372036854775807, 9223372036854775807]; a, b = split(x, s); "
           "output a; output b }",
           "graph { input x: f32[2,3]; const k: i64[0] = []; y = trilu(x, k); output y }",
           "graph { input x: f32[2,3]; const r: f32[0] = []; y = dropout(x, r); output y }",
           "graph { input i: i64[3]; const d: i64[0] = []; const v: f32[2] = [0.0, 1.0]; y = one_hot(i, d, v); output "
           "y }",
           "graph { input x: f32[1]; a, b, c = split(x) {num_outputs=3}; output a; output b; output c }",
           "graph { input x: f32[5]; const s: i64[1] = [0]; const e: i64[1] = [5]; const a: i64[1] = [0]; const t: "
           "i64[1] = [0]; y = slice(x, s, e, a, t); output y }",
           "graph { input x: f32[5]; const s: i64[2] = [0, 0]; const e: i64[2] = [5, 1]; y = slice(x, s, e); output y "
           "}",
           "graph { input x: f32[5,5]; const s: i64[2] = [0, 0]; const e: i64[2] = [5, 1]; const a: i64[2] = [0, -2]; "
           "y = slice(x, s, e, a); output y }",
           "graph { input x: f32[5]; const p: i64[2] = [-3, -3]; y = pad(x, p); output y }",
           "graph { input x: f32[0]; const p: i64[2] = [1, 1]; y = pad(x, p) {mode=\"edge\"}; output y }",
           "graph { input x: f32[5]; const p: i64[1] = [1]; y = pad(x, p); output y }",
           "graph { input x: f32[5]; const p: i64[2] = [1, 1]; y = pad(x, p) {mode=\"mirror\"}; output y }",
           "graph { const s: i64[1] = [-2]; y = constant_of_shape(s); output y }",
           "graph { const s: i64[2] = [9223372036854775807, 9223372036854775807]; t = constant_of_shape(s); y = "
           "size(t); output y }",
           "graph { const s: i64[] = [0]; const l: i64[] = [4]; const d: i64[] = [0]; y = range(s, l, d); output y }",
           "graph { const s: f32[] = [0.0]; const l: f32[] = [inf]; const d: f32[] = [1.0]; y = range(s, l, d); output "
           "y }",
           "graph { input x: f32[2,3]; input y: f32[4]; z = add(x, y); output z }",
           "graph { input x: f32[2,3]; input y: i32[3]; z = add(x, y); output z }",
           "graph { input x: f32[3]; input s: f32[2]; y = prelu(x, s); output y }",
           "graph { input x: u8[3]; y = neg(x); output y }",
           "graph { input x: f32[3]; y = cast(x) {to=99}; output y }",
           "graph { input x: f32[3]; y = cast(x); output y }",
           "graph { input x: f32[3]; y = softmax(x) {axis=1}; output y }",
           "graph { input x: f32[]; y = softmax(x); output y }",
           "graph { input x: f32[2,0]; y = arg_max(x) {axis=1}; output y }",
           "graph { input x: f32[2,3]; const a: i64[1] = [2]; y = reduce_sum(x, a); output y }",
           "graph { input x: f32[2,3]; const a: i64[2] = [0, -2]; y = reduce_sum(x, a); output y }",
           "graph { input x: f32[1,5,2,2]; y = depth_to_space(x) {blocksize=2}; output y }",
           "graph { input x: f32[1,4,2,2]; y = depth_to_space(x) {blocksize=0}; output y }",
           "graph { input x: i32[3]; input b: i32[3]; y = bit_shift(x, b) {direction=\"UP\"}; output y }",
           "graph { input x: f32[3]; y = trilu(x); output y }",
           "graph { input x: f32[3]; y = gelu(x) {approximate=\"fast\"}; output y }",
           "graph { input x: f32[3]; y = relu(x) {slope=1.0}; output y }",
           "graph { input x: f32[3,2]; const l: i64[3] = [1, 1, 1]; y = reverse_sequence(x, l); output y }",
           "graph { input x: f32[3]; input c: bool[3]; y = compress(x, c) {axis=1}; output y }",
       }) {
    EXPECT_NE(refusal(text), "") << text;
  }
}

// Scales, zero points, states and blocks of another shape than their tensor's, each beside one that is accepted.
TEST(Refusals, ScalesZeroPointsAndStatesOfAnotherShape) {
  const auto lstm = [](std::string_view more, std::string_view ports) {
    return "graph { input x: f32[5,2,3]; input w: f32[1,16,3]; input r: f32[1,16,4]; " + std::string(more) +
           " y, h, c = lstm(x, w, r, " + std::string(ports) + "); output y; output h; output c }";
  };
  const auto bytes = [](std::string_view r, std::string_view scale, std::string_view zero) {
    return "graph { input x: f32[5,2,3]; const w: i8[1,3,16] = splat(1); const r: i8" + std::string(r) +
           " = splat(1); input s: f32" + std::string(scale) + "; const z: i8" + std::string(zero) +
           " = splat(0); y, h, c = dynamic_quantize_lstm(x, w, r, _, _, _, _, _, s, z, s, z); output y }";
  };
  const auto quantized = [](std::string_view scale, std::string_view zero, std::string_view attrs) {
    return "graph { input x: f32[2,8]; input s: f32" + std::string(scale) + "; input z: u8" + std::string(zero) +
           "; y = quantize_linear(x, s, z) {" + std::string(attrs) + "}; d = dequantize_linear(y, s, z) {" +
           std::string(attrs) + "}; output y; output d }";
  };
  const auto product = [](std::string_view a_zero, std::string_view b_zero) {
    return "graph { input a: u8[2,3]; input b: u8[3,4]; input az: u8" + std::string(a_zero) + "; input bz: u8" +
           std::string(b_zero) + "; y = matmul_integer(a, b, az, bz); output y }";
  };
  const auto mel = [](std::string_view bins, std::string_view length) {
    return "graph { const b: i64[] = [" + std::string(bins) + "]; const n: i64[] = [" + std::string(length) +
           "]; const r: i64[] = [16000]; const l: f32[] = [0.0]; const u: f32[] = [8000.0]; "
           "y = mel_weight_matrix(b, n, r, l, u); output y }";
  };
  for (const std::string& text :
       {lstm("input h0: f32[1,2,4]; input c0: f32[1,2,4]; input p: f32[1,12];", "_, _, h0, c0, p"),
        bytes("[1,4,16]", "[1]", "[1]"), bytes("[1,4,16]", "[1,16]", "[1]"), quantized("[]", "[]", ""),
        quantized("[8]", "[8]", "axis=1"), quantized("[2]", "[2]", "axis=0"),
        quantized("[2,2]", "[2,2]", "axis=1, block_size=4"), quantized("[2,3]", "[2,3]", "axis=1, block_size=3"),
        product("[]", "[1]"), product("[2]", "[4]"), mel("8", "16")})
    EXPECT_EQ(refusal(text), "") << text;
  for (const std::string& text : {lstm("input c0: f32[1,2,3];", "_, _, _, c0"),
                                  lstm("input c0: f32[2,2,4];", "_, _, _, c0"),
                                  lstm("input c0: f32[1,3,4];", "_, _, _, c0"),
                                  lstm("input c0: f32[2,4];", "_, _, _, c0"),
                                  lstm("input p: f32[1,16];", "_, _, _, _, p"),
                                  lstm("input p: f32[2,12];", "_, _, _, _, p"),
                                  bytes("[1,5,16]", "[1]", "[1]"),
                                  bytes("[1,16]", "[1]", "[1]"),
                                  bytes("[2,4,16]", "[1]", "[1]"),
                                  bytes("[1,4,16]", "[4]", "[1]"),
                                  bytes("[1,4,16]", "[]", "[1]"),
                                  bytes("[1,4,16]", "[1]", "[1,4]"),
                                  quantized("[2]", "[2]", "axis=1"),
                                  quantized("[8]", "[8]", "axis=2"),
                                  quantized("[8]", "[]", "axis=1"),
                                  quantized("[]", "[8]", "axis=1"),
                                  quantized("[1,8]", "[1,8]", "axis=1"),
                                  quantized("[2,3]", "[2,3]", "axis=1, block_size=4"),
                                  quantized("[2,2]", "[2,1]", "axis=1, block_size=4"),
                                  quantized("[2]", "[2]", "axis=1, block_size=4"),
                                  quantized("[2,2]", "[2,2]", "axis=1, block_size=-4"),
                                  product("[3]", "[4]"),
                                  product("[2]", "[3]"),
                                  product("[1,2,1]", "[]"),
                                  mel("0", "16"),
                                  mel("8", "-1")})
    EXPECT_NE(refusal(text), "") << text;
}

// Constant scales that are no numbers to multiply or divide by.
TEST(Refusals, ScalesOfZeroOrNaN) {
  const auto quantize = [](std::string_view s) {
    return "graph { input x: f32[2,3]; const s: f32[3] = [" + std::string(s) +
           "]; y = quantize_linear(x, s); output y }";
  };
  const auto dequantize = [](std::string_view s) {
    return "graph { input x: u8[2,3]; const s: f32[3] = [" + std::string(s) +
           "]; y = dequantize_linear(x, s); output y }";
  };
  const auto product = [](std::string_view a, std::string_view b, std::string_view y) {
    return "graph { input a: u8[2,3]; input b: u8[3,2]; const z: u8[] = [7]; const p: f32[] = [" + std::string(a) +
           "]; const q: f32[2] = [" + std::string(b) + "]; const r: f32[] = [" + std::string(y) +
           "]; y = qlinear_matmul(a, p, z, b, q, z, r, z); output y }";
  };
  for (const std::string& text :
       {quantize("0.1, -0.2, 3.0"), dequantize("0.1, 0.0, 0.5"), product("0.1", "0.1, 0.0", "0.1")})
    EXPECT_EQ(refusal(text), "") << text;
  for (const std::string& text :
       {quantize("0.1, 0.0, 0.2"), quantize("0.1, nan, 0.2"), quantize("0.1, inf, 0.2"), dequantize("0.1, nan, 0.2"),
        dequantize("0.0, 0.0, 0.0"), product("0.0", "0.1, 0.1", "0.1"), product("0.1", "0.1, nan", "0.1"),
        product("0.1", "0.1, 0.1", "0.0"), product("0.1", "0.1, 0.1", "nan")})
    EXPECT_NE(refusal(text).find("scale"), std::string::npos) << text << ": " << refusal(text);
}

TEST(Refusals, SizesThatAreNotKnownMayFit) {
  EXPECT_EQ(shape_of("graph { input x: f32[1,6,9,9]; input w: f32[o,c,3,3]; y = conv(x, w) {group=2}; output y }"),
            "[1,o,7,7]");
  EXPECT_EQ(shape_of("graph { input t: f32[n,r,c]; const s: i64[4] = [2, 3, 5, 7]; y = affine_grid(t, s); output y }"),
            "[n,5,7,2]");
  EXPECT_EQ(shape_of("graph { input t: f32[n,r,c]; const s: i64[5] = [2, 3, 4, 5, 7]; y = affine_grid(t, s); output y "
                     "}"),
            "[n,4,5,7,3]");
  for (const char* text :
       {"graph { input t: f32[n,2,c]; const s: i64[5] = [2, 3, 4, 5, 7]; y = affine_grid(t, s); output y }",
        "graph { input t: f32[n,r,c]; input s: i64[k]; y = affine_grid(t, s); output y }",
        "graph { input x: f32[1,6,9,9]; input w: f32[o,6,3,3]; y = conv(x, w) {group=2}; output y }"})
    EXPECT_NE(refusal(text), "") << text;
}

}  // namespace
}  // namespace peri::ops
