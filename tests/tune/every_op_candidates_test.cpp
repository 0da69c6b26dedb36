// Kernels for what is no product: on problems beyond the ops' samples, with tails, several tasks, every type and mode,
// each gives the reference's answer.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ir/graph.hpp"
#include "ops/entry.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {
namespace {

// The kernels whose candidates passed verification.
std::set<std::string> passed(const std::string& text) {
  Result<ir::Graph> graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().text();
  if (!graph.ok()) return {};
  const Status typed = ops::infer_graph(*graph);
  EXPECT_TRUE(typed.ok()) << text << ": " << (typed.ok() ? "" : typed.error().text());
  if (!typed.ok()) return {};
  Options options;
  options.measure = false;
  options.provider = "peri";
  static Tuner tuner(options);
  std::vector<bool> constant;
  for (const ir::Value* v : graph->inputs) constant.push_back(v->name[0] == 'w');
  std::set<std::string> names;
  const Candidates& all = tuner.candidates(*graph, constant);
  for (const Candidate& c : all.list) {
    EXPECT_EQ(c.evidence.rejected, "") << c.id() << " for " << text;
    EXPECT_LE(c.evidence.max_error, 1) << c.id() << " for " << text;
    if (c.evidence.max_error >= 0) names.insert(std::string(c.kernel->name));
  }
  return names;
}

void takes(const std::string& kernel, const std::string& inputs, const std::string& call) {
  const std::string text = "graph { " + inputs + "; y = " + call + "; output y }";
  EXPECT_EQ(passed(text).count(kernel), 1) << kernel << " for " << text;
}

TEST(EveryOp, CastsBetweenAllNumbers) {
  const std::vector<std::string> types = {"f32", "f64", "f16", "bf16", "i8",  "i16", "i32",
                                          "i64", "u8",  "u16", "u32",  "u64", "bool"};
  for (const std::string& from : types) {
    for (const std::string& to : types) {
      if (from == to || (from.ends_with("64") && from != "f64" && to == "bf16")) continue;  // which would round twice
      const auto dtype = parse_dtype(to);
      ASSERT_TRUE(dtype.ok());
      const std::string text = "graph { input x: " + from +
                               "[3,701]; y = cast(x) {to=" + std::to_string(static_cast<int64_t>(*dtype)) +
                               "}; output y }";
      EXPECT_FALSE(passed(text).empty()) << text;
    }
  }
}

TEST(EveryOp, PowersOfIntegers) {
  const std::string kernel = "elementwise_typed";
  for (const std::string type : {"i32", "i64"}) {
    const std::string x = "input x: " + type + "[3,701]";
    for (const std::string e : {"0", "1", "2", "3", "7", "-1", "-2", "40"})
      takes(kernel, x + "; const e: " + type + "[] = [" + e + "]", "pow(x, e)");
    takes(kernel, x + "; input e: " + type + "[701]", "pow(x, e)");
    takes(kernel, x + "; const e: u8[] = [3]", "pow(x, e)");
    takes(kernel, x + "; const e: i64[3,1] = [3, -2, 5]", "pow(x, e)");
    takes(kernel, x + "; const e: f32[] = [0.5]", "pow(x, e)");
    takes(kernel, x + "; const e: f64[] = [2.0]", "pow(x, e)");
  }
}

TEST(EveryOp, ShrinkOfIntegers) {
  for (const std::string type : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"})
    takes("elementwise_typed", "input x: " + type + "[3,701]", "shrink(x) {bias=1.5, lambd=1.5}");
}

TEST(EveryOp, ChoicesAmongNarrowIntegers) {
  const std::string k = "; const k: i64[1] = [40]; y, i = top_k(x, k); output y; output i }";
  for (const std::string type : {"u8", "i8", "u16", "i16"})
    EXPECT_EQ(passed("graph { input x: " + type + "[3,500]" + k).count("top_k"), 1) << type;
  for (const std::string type : {"u8", "i8", "u16", "i16", "bool"})
    for (const std::string op : {"reduce_max", "reduce_min"}) {
      takes("reduce", "input x: " + type + "[3,70,41]; const a: i64[1] = [1]", op + "(x, a)");
      takes("reduce", "input x: " + type + "[3,70,41]; const a: i64[1] = [2]", op + "(x, a)");
    }
}

TEST(EveryOp, WhatFloat64ModelsHold) {
  for (const std::string op : {"softmax", "log_softmax", "lp_normalization"})
    for (const std::string axis : {"0", "1", "2"})
      takes("rows_f64", "input x: f64[5,70,9]", op + "(x) {axis=" + axis + "}");
  takes("rows_f64", "input x: f64[5,630]; input s: f64[630]; input b: f64[630]", "layer_normalization(x, s, b)");
  takes("rows_f64", "input x: f64[5,630]; input s: f64[630]", "rms_normalization(x, s)");
  takes("max_pool_typed", "input x: f64[2,9,30,31]",
        "max_pool(x) {kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]}");
  takes("matmul_typed", "input a: f64[2,1,7,9]; input b: f64[3,9,13]", "matmul(a, b)");
  takes("attention_f64", "input q: f64[2,3,7,8]; input k: f64[2,3,9,8]; input v: f64[2,3,9,5]", "attention(q, k, v)");
}

TEST(EveryOp, MaximaOfBytes) {
  for (const std::string type : {"u8", "i8"})
    for (const char* channels : {"1", "16", "63", "64", "100"})
      for (const char* how : {"kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]", "kernel_shape=[2, 2]",
                              "kernel_shape=[3, 2], strides=[1, 1], dilations=[2, 3], pads=[2, 3, 1, 0]",
                              "kernel_shape=[2, 2], strides=[3, 5]", "kernel_shape=[9, 11], pads=[8, 10, 8, 10]"})
        takes("max_pool_bytes", "input x: " + type + "[2," + channels + ",17,19]",
              std::string("max_pool(x) {") + how + "}");
}

TEST(EveryOp, MeansOfBytes) {
  for (const std::string type : {"u8", "i8"})
    EXPECT_EQ(passed("graph { input x: " + type +
                     "[2,35,7,9]; const s: f32[] = [0.03]; d = dequantize_linear(x, s); y = global_average_pool(d); "
                     "output y }")
                  .count("mean_bytes"),
              1);
}

TEST(EveryOp, ArithmeticOfAllTypes) {
  for (const char* type : {"f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
    const std::string t = type;
    for (const char* op : {"add", "sub", "mul", "div", "max", "min", "mod", "less", "equal", "greater_or_equal"}) {
      if (t == "f64" && std::string(op) == "mod") continue;
      takes("elementwise_typed", "input a: " + t + "[3,5,301]; input b: " + t + "[5,1]", std::string(op) + "(a, b)");
    }
    takes("elementwise_typed", "input c: bool[3,1,301]; input a: " + t + "[3,5,301]; input b: " + t + "[]",
          "where(c, a, b)");
  }
  for (const char* op : {"bitwise_and", "bitwise_or", "bitwise_xor"})
    takes("elementwise_typed", "input a: i32[7,300]; input b: i32[300]", std::string(op) + "(a, b)");
  for (const char* op : {"and", "or", "xor", "equal"})
    takes("elementwise_typed", "input a: bool[7,300]; input b: bool[7,1]", std::string(op) + "(a, b)");
}

TEST(EveryOp, FunctionsWithoutInstructions) {
  for (const char* op : {"tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "shrink", "is_inf"})
    takes("elementwise_typed", "input x: f32[3,1111]", std::string(op) + "(x)");
  for (const char* op : {"exp", "log", "tanh", "sqrt", "erf", "sigmoid", "softplus", "floor", "sign", "neg", "selu"})
    takes("elementwise_typed", "input x: f64[3,1111]", std::string(op) + "(x)");
  for (const char* op : {"selu", "celu", "softsign", "thresholded_relu"})
    takes("elementwise", "input x: f32[3,1111]", std::string(op) + "(x)");
  for (const char* op : {"sum", "mean"})
    takes("elementwise", "input x: f32[3,111]; input z: f32[111]; input u: f32[]", std::string(op) + "(x, z, u)");
}

TEST(EveryOp, ReductionsOverAnyAxes) {
  for (const char* op : {"sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum_exp"})
    for (const char* axes : {"i64[1] = [3]", "i64[2] = [0, 2]", "i64[2] = [1, 3]", "i64[1] = [0]"})
      takes("reduce", std::string("input x: f32[5,7,3,130]; const a: ") + axes, std::string("reduce_") + op + "(x, a)");
  for (const char* type : {"f64", "i32", "i64"})
    for (const char* op : {"sum", "max", "min"})
      takes("reduce", std::string("input x: ") + type + "[5,70,33]; const a: i64[1] = [1]",
            std::string("reduce_") + op + "(x, a)");
}

TEST(EveryOp, WhatMovesElements) {
  for (const char* type : {"f32", "u8", "i64", "f16"}) {
    const std::string x = std::string("input x: ") + type;
    for (const char* mode : {"constant", "reflect", "edge", "wrap"})
      takes("pad", x + "[3,40,33]; const p: i64[6] = [0, 5, 7, 1, 0, 9]",
            std::string("pad(x, p) {mode=\"") + mode + "\"}");
    takes("copy", x + "[3,40,33]; const r: i64[3] = [2, 1, 3]", "tile(x, r)");
    takes("copy", x + "[2,24,9,11]", "depth_to_space(x) {blocksize=2}");
    takes("copy", x + "[2,24,9,11]", "depth_to_space(x) {blocksize=2, mode=\"CRD\"}");
    takes("copy", x + "[2,3,8,12]", "space_to_depth(x) {blocksize=4}");
    takes("pick", x + "[30,7,65]; input i: i64[30,5,65]", "gather_elements(x, i) {axis=1}");
    takes("pick", x + "[30,7,65]; input i: i32[20,7,50]", "gather_elements(x, i) {axis=2}");
    takes("pick", x + "[30,7,65]; input i: i64[500,2]", "gather_nd(x, i)");
    takes("pick", x + "[4,30,7]; input i: i64[4,50,2]", "gather_nd(x, i) {batch_dims=1}");
    takes("pick", x + "[3,70,65]; const k: i64[] = [-3]", "trilu(x, k) {upper=0}");
    takes("pick", x + "[50,6,65]; input l: i64[6]", "reverse_sequence(x, l)");
  }
  takes("pick", "input i: i64[40,9]; const d: i64[] = [33]; const v: f32[2] = [0.5, 2.0]", "one_hot(i, d, v) {axis=1}");
  takes("pad", "input x: f32[2,9,30,31]; const s: i64[2] = [25, 40]", "center_crop_pad(x, s) {axes=[2, 3]}");
}

TEST(EveryOp, Scatters) {
  for (const char* how : {"none", "add", "mul", "max", "min"}) {
    const std::string mode = std::string(" {axis=1, reduction=\"") + how + "\"}";
    for (const char* type : {"f32", "i64", "u8"}) {
      const std::string t = type;
      takes("scatter", "input x: " + t + "[30,7,65]; input i: i64[30,5,60]; input u: " + t + "[30,5,60]",
            "scatter_elements(x, i, u)" + mode);
      takes("scatter", "input x: " + t + "[9,20,130]; input i: i64[300,2]; input u: " + t + "[300,130]",
            std::string("scatter_nd(x, i, u) {reduction=\"") + how + "\"}");
    }
  }
}

TEST(EveryOp, ScansAndChoices) {
  for (const char* flags : {"", " {exclusive=1}", " {reverse=1}", " {exclusive=1, reverse=1}"}) {
    takes("scan", "input x: f32[3,50,600]; const a: i64[] = [1]", std::string("cum_sum(x, a)") + flags);
    takes("scan", "input x: i64[400,70]; const a: i64[] = [-1]", std::string("cum_sum(x, a)") + flags);
  }
  for (const char* k : {"3", "40"})
    for (const char* flags : {"", " {largest=0}", " {axis=0}"})
      EXPECT_EQ(passed(std::string("graph { input x: f32[50,300]; const k: i64[1] = [") + k + "]; v, i = top_k(x, k)" +
                       flags + "; output v; output i }")
                    .count("top_k"),
                1)
          << k << flags;
}

TEST(EveryOp, Windows) {
  for (const char* op : {"max_pool", "average_pool"}) {
    const std::string call = std::string(op) + "(x) {kernel_shape=[3, 2], strides=[2, 1], auto_pad=";
    takes("pool_f32", "input x: f32[2,9,30,31]", call + "\"SAME_UPPER\"}");
    takes("pool_f32", "input x: f32[2,9,30,31]", call + "\"SAME_LOWER\"}");
    takes("pool_f32", "input x: f32[2,9,10,12,33]",
          std::string(op) + "(x) {kernel_shape=[2, 3, 3], strides=[2, 1, 2], pads=[0, 1, 1, 1, 1, 1]}");
  }
  takes("pool_f32", "input x: f32[1,3,21,40]",
        "average_pool(x) {kernel_shape=[3, 3], strides=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1, ceil_mode=1}");
}

TEST(EveryOp, PlacesOfMaxima) {
  for (const char* flags : {"", ", storage_order=1"}) {
    const std::string call =
        std::string("max_pool(x) {kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]") + flags + "}";
    EXPECT_EQ(
        passed("graph { input x: f32[2,9,30,31]; v, i = " + call + "; output v; output i }").count("max_pool_typed"), 1)
        << flags;
  }
  for (const char* type : {"u8", "i8"})
    takes("max_pool_typed", std::string("input x: ") + type + "[2,9,30,31]",
          "max_pool(x) {kernel_shape=[2, 2], strides=[2, 2]}");
}

TEST(EveryOp, Normalisations) {
  takes("norm_groups_f32", "input x: f32[2,12,19,33]; input w: f32[12]; input w1: f32[12]",
        "instance_normalization(x, w, w1)");
  takes("norm_groups_f32", "input x: f32[2,12,19,33]; input w: f32[12]; input w1: f32[12]",
        "group_normalization(x, w, w1) {num_groups=4}");
  for (const char* flags : {"{axis=1, p=1}", "{axis=1, p=2}", "{axis=2, p=2}"})
    takes("norm_groups_f32", "input x: f32[3,70,130]", std::string("lp_normalization(x) ") + flags);
}

TEST(EveryOp, Sampling) {
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      takes("grid_sample_f32", "input x: f32[2,5,13,17]; input g: f32[2,20,11,2]",
            std::string("grid_sample(x, g) {mode=\"") + mode + "\", padding_mode=\"" + padding + "\"}");
  takes("grid_sample_f32", "input x: f32[1,3,6,7,8]; input g: f32[1,5,6,7,3]", "grid_sample(x, g) {align_corners=1}");
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    takes("resize_taps", "input x: f32[2,3,9,11,7]; const s: i64[5] = [2, 3, 18, 7, 20]",
          std::string("resize(x, _, _, s) {mode=\"") + mode + "\"}");
    takes("resize_taps", "input x: f32[2,30,50]; const s: i64[3] = [2, 30, 120]",
          std::string("resize(x, _, _, s) {mode=\"") + mode + "\"}");
  }
  takes("resize_taps", "input x: f32[2,3,40,50]; const s: i64[4] = [2, 3, 17, 20]",
        "resize(x, _, _, s) {mode=\"linear\", antialias=1}");
  for (const std::string type : {"u8", "i8", "u16", "i16", "u32", "i32"})
    for (const char* how : {"linear\"", "cubic\"", "linear\", antialias=1", "cubic\", antialias=1"}) {
      const std::string resize = std::string("resize(x, _, _, s) {mode=\"") + how + "}";
      takes("resize_integers", "input x: " + type + "[2,3,40,50]; const s: i64[4] = [2, 3, 17, 71]", resize);
      takes("resize_integers", "input x: " + type + "[2,41,30,3]; const s: i64[4] = [2, 64, 90, 3]", resize);
      takes("resize_integers", "input x: " + type + "[30,50]; const s: i64[2] = [30, 99]", resize);
    }
  takes("resize_integers", "input x: u8[1,2,40,50]; const s: f32[4] = [1.0, 1.0, 2.3, 0.7]",
        "resize(x, _, s) {mode=\"linear\", coordinate_transformation_mode=\"align_corners\"}");
  takes("roi_align_f32", "input x: f32[2,20,30,40]; input r: f32[9,4]; input b: i64[9]",
        "roi_align(x, r, b) {output_height=5, output_width=7}");
}

TEST(EveryOp, ProductsThatBroadcast) {
  takes("gemm_f32", "input a: f32[8,1,40,33]; input b: f32[5,33,29]", "matmul(a, b)");
  takes("gemm_f32", "input a: f32[1,5,40,33]; input b: f32[8,1,33,29]", "matmul(a, b)");
  takes("gemm_f32", "input a: f32[5,40,33]; input w: f32[5,33,29]", "matmul(a, w)");
  takes("gemm_f32", "input w: f32[40,330]; input b: f32[6,330,29]", "matmul(w, b)");
  takes("gemm_f32", "input a: f32[330]; input b: f32[330,29]", "matmul(a, b)");
  takes("gemm_f32", "input a: f32[6,40,330]; input b: f32[330]", "matmul(a, b)");
}

}  // namespace
}  // namespace peri::tune
