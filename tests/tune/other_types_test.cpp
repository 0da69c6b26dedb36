// Operators in types beside float32 that fell to the reference: each has a kernel whose answer is the reference's.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "ops/entry.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {
namespace {

void is_taken(const std::string& text) {
  Result<ir::Graph> graph = ir::parse_graph(text);
  ASSERT_TRUE(graph.ok()) << text << ": " << graph.error().text();
  const Status typed = ops::infer_graph(*graph);
  ASSERT_TRUE(typed.ok()) << text << ": " << typed.error().text();
  Options options;
  options.measure = false;
  options.provider = "peri";
  static Tuner tuner(options);
  int taken = 0;
  for (const Candidate& c : tuner.candidates(*graph, std::vector<bool>(graph->inputs.size(), false)).list) {
    EXPECT_EQ(c.evidence.rejected, "") << c.id() << " for " << text;
    EXPECT_LE(c.evidence.max_error, 1) << c.id() << " for " << text;
    taken += c.evidence.max_error >= 0;
  }
  EXPECT_GT(taken, 0) << text;
}

const std::vector<std::string> kIntegers = {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"};

// Sums of more elements than a narrow type counts, over the innermost axis, another one and both.
TEST(OtherTypes, ReductionsOfEveryInteger) {
  for (const std::string& type : kIntegers)
    for (const std::string op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l1",
                                 "reduce_l2", "reduce_sum_square"})
      for (const std::string axes : {"[1]", "[2]", "[0, 2]", "[0, 1, 2]"}) {
        const std::string count = std::to_string(1 + std::count(axes.begin(), axes.end(), ','));
        is_taken("graph { input x: " + type + "[3,301,70]; const a: i64[" + count + "] = " + axes + "; y = " + op +
                 "(x, a); output y }");
      }
}

TEST(OtherTypes, PlacesAndRunningSumsOfEveryInteger) {
  for (const std::string& type : kIntegers)
    for (const std::string axis : {"0", "1"}) {
      const std::string x = "graph { input x: " + type + "[67,130]; ";
      for (const std::string more : {"", ", select_last_index=1"})
        for (const std::string op : {"arg_max", "arg_min"})
          is_taken(x + "y = " + op + "(x) {axis=" + axis + more + "}; output y }");
      for (const std::string more : {"", "{exclusive=1}", "{reverse=1}"})
        for (const std::string op : {"cum_sum", "cum_prod"})
          is_taken(x + "const a: i64[] = [" + axis + "]; y = " + op + "(x, a) " + more + "; output y }");
      for (const std::string k : {"5", "40"})
        is_taken(x + "const k: i64[1] = [" + k + "]; y, i = top_k(x, k) {axis=" + axis + "}; output y; output i }");
    }
}

// Among a few, many and more neighbours than are looked at at once; of equals the first comes first.
TEST(OtherTypes, BestOfRowsOfEveryInteger) {
  for (const std::string& type : kIntegers)
    for (const std::string length : {"5", "64", "700"})
      for (const std::string k : {"1", "4", "16"})
        for (const std::string largest : {"0", "1"})
          if (std::stoi(k) <= std::stoi(length))
            is_taken("graph { input x: " + type + "[9," + length + "]; const k: i64[1] = [" + k +
                     "]; y, i = top_k(x, k) {largest=" + largest + "}; output y; output i }");
}

TEST(OtherTypes, GatesOfFloat64) {
  for (const std::string op : {"swish(x)", "swish(x) {alpha=1.702}", "mish(x)"})
    is_taken("graph { input x: f64[3,2001]; y = " + op + "; output y }");
}

TEST(OtherTypes, SamplesOfFloat64) {
  for (const std::string mode : {"nearest", "linear", "cubic"})
    for (const std::string padding : {"zeros", "border", "reflection"})
      for (const std::string align : {"0", "1"})
        is_taken("graph { input x: f64[2,5,13,17]; input g: f64[2,20,11,2]; y = grid_sample(x, g) {mode=\"" + mode +
                 "\", padding_mode=\"" + padding + "\", align_corners=" + align + "}; output y }");
  is_taken("graph { input x: f64[1,3,6,7,8]; input g: f64[1,5,6,7,3]; y = grid_sample(x, g); output y }");
  for (const std::string more : {"", ", sampling_ratio=2", ", coordinate_transformation_mode=\"output_half_pixel\""})
    is_taken(
        "graph { input x: f64[2,20,30,40]; input r: f64[9,4]; input b: i64[9]; y = roi_align(x, r, b) "
        "{output_height=5, output_width=7, spatial_scale=0.5" +
        more + "}; output y }");
}

TEST(OtherTypes, UpdatesOfTruths) {
  for (const std::string how : {"none", "add", "mul", "max", "min"}) {
    is_taken(
        "graph { input x: bool[9,40]; input i: i64[7,40]; input u: bool[7,40]; y = scatter_elements(x, i, u) "
        "{reduction=\"" +
        how + "\"}; output y }");
    is_taken(
        "graph { input x: bool[9,40]; input i: i64[30,1]; input u: bool[30,40]; y = scatter_nd(x, i, u) "
        "{reduction=\"" +
        how + "\"}; output y }");
  }
}

TEST(OtherTypes, GroupsOfFloat64) {
  for (const std::string groups : {"1", "3", "12"})
    for (const std::string dims : {"[2,12,9,33]", "[3,12,70]", "[5,12]"})
      is_taken("graph { input x: f64" + dims +
               "; input s: f64[12]; input b: f64[12]; y = group_normalization(x, s, b) "
               "{num_groups=" +
               groups + ", epsilon=0.001}; output y }");
  is_taken(
      "graph { input x: f64[2,5,33]; input s: f64[5]; input b: f64[5]; y = instance_normalization(x, s, b); output "
      "y }");
}

TEST(OtherTypes, DeformedConvolutionsOfFloat64) {
  is_taken(
      "graph { input x: f64[1,3,20,21]; input w: f64[5,3,3,3]; input o: f64[1,18,18,19]; y = deform_conv(x, w, o); "
      "output y }");
  is_taken(
      "graph { input x: f64[2,6,9,11]; input w: f64[14,3,3,2]; input o: f64[2,36,9,10]; input b: f64[14]; input m: "
      "f64[2,18,9,10]; y = deform_conv(x, w, o, b, m) {group=2, offset_group=3, pads=[1, 0, 1, 0]}; output y }");
}

// Windows that leave the image at every end, and rows shorter and longer than are done at a time.
TEST(OtherTypes, MaximaInEveryNumberOfDimensions) {
  for (const std::string type : {"f64", "u8", "i8"}) {
    for (const std::string width : {"7", "150"})
      for (const std::string more : {"", ", strides=[2, 1, 2]", ", strides=[1, 2, 3], dilations=[1, 3, 2]"})
        for (const std::string order : {"0", "1"})
          is_taken("graph { input x: " + type + "[2,3,9,11," + width +
                   "]; y, i = max_pool(x) {kernel_shape=[3, 2, 3], "
                   "pads=[2, 1, 2, 1, 0, 1], storage_order=" +
                   order + more + "}; output y; output i }");
    is_taken("graph { input x: " + type +
             "[2,9,301]; y, i = max_pool(x) {kernel_shape=[4], strides=[3], pads=[2, 1]}; "
             "output y; output i }");
    is_taken("graph { input x: " + type + "[2,2,4,5,6,70]; y = max_pool(x) {kernel_shape=[2, 3, 2, 2]}; output y }");
  }
}

}  // namespace
}  // namespace peri::tune
