// Convolution and pooling: extents of symbolic inputs, resolved pads, values of tricky windows, and what is refused.
#include <gtest/gtest.h>

#include "ops/shape/window.hpp"
#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

TEST(Conv, SymbolicExtents) {
  EXPECT_EQ(
      shape_of("graph { input x: f32[batch,3,h,w]; input w: f32[8,3,3,3]; y = conv(x, w) {pads=[1,1,1,1]}; output y }"),
      "[batch,8,h,w]");
  EXPECT_EQ(shape_of("graph { input x: f32[batch,3,h,7]; input w: f32[8,3,3,3]; y = conv(x, w) {pads=[1,1,1,1], "
                     "strides=[2,2]}; output y }"),
            "[batch,8,floordiv(h + 1, 2),4]");
  EXPECT_EQ(shape_of("graph { input x: f32[b,3,h]; input w: f32[8,3,4]; y = conv(x, w) {auto_pad=\"SAME_UPPER\"}; "
                     "output y }"),
            "[b,8,h]");
  EXPECT_EQ(shape_of("graph { input x: f32[b,3,h]; input w: f32[8,3,k]; y = conv(x, w); output y }"),
            "[b,8,h - k + 1]");
}

TEST(Conv, SameLowerPutsTheOddPadFirst) {
  const std::vector<RefTensor> in = {floats({1, 1, 4}, {1, 2, 3, 4}), floats({1, 1, 2}, {1, 10})};
  const char* text = "graph { input x: f32[1,1,4]; input w: f32[1,1,2]; y = conv(x, w) {auto_pad=\"%s\"}; output y }";
  expect_values(run_text(text_of(text, "SAME_UPPER"), in)[0], {21, 32, 43, 4});
  expect_values(run_text(text_of(text, "SAME_LOWER"), in)[0], {10, 21, 32, 43});
}

TEST(Conv, TapsInThePaddingAreNoWork) {
  for (const int64_t in : {1, 5, 8})
    for (const int64_t kernel : {1, 3, 4})
      for (const int64_t dilation : {1, 2, 7})
        for (const int64_t stride : {1, 2, 3})
          for (const int64_t pad : {0, 1, 9}) {
            const Window w{{kernel}, {stride}, {dilation}, {pad}, {pad}};
            const int64_t out = (in + 2 * pad - w.reach(0)) / stride + 1;
            if (in + 2 * pad < w.reach(0)) continue;
            int64_t wanted = 0;
            for (int64_t o = 0; o < out; ++o)
              for (int64_t k = 0; k < kernel; ++k) {
                const int64_t at = window_at(w, 0, o, k);
                wanted += at >= 0 && at < in;
              }
            EXPECT_EQ(taps_inside(w, 0, in, out), wanted)
                << in << " " << kernel << " " << dilation << " " << stride << " " << pad;
          }
}

TEST(Conv, GroupsAndDilation) {
  const std::vector<RefTensor> in = {floats({1, 2, 5}, {1, 2, 3, 4, 5, 10, 20, 30, 40, 50}),
                                     floats({2, 1, 2}, {1, -1, 2, 1})};
  expect_values(run_text("graph { input x: f32[1,2,5]; input w: f32[2,1,2]; y = conv(x, w) {dilations=[3], group=2}; "
                         "output y }",
                         in)[0],
                {-3, -3, 60, 90});
}

TEST(Conv, Refusals) {
  const auto conv = [](const char* x, const char* w, const char* attrs) {
    return refusal(text_of("graph { input x: f32%s; input w: f32%s; y = conv(x, w) {%s}; output y }", x, w, attrs));
  };
  EXPECT_NE(conv("[1,3,8,8]", "[4,3,3,3]", "strides=[0,1]").find("strides"), std::string::npos);
  EXPECT_NE(conv("[1,3,8,8]", "[4,3,3,3]", "dilations=[1]").find("dilations"), std::string::npos);
  EXPECT_NE(conv("[1,3,8,8]", "[4,3,3,3]", "pads=[-1,0,0,0]").find("pads"), std::string::npos);
  EXPECT_NE(conv("[1,3,8,8]", "[4,3,3,3]", "group=2").find("channels"), std::string::npos);
  EXPECT_NE(conv("[1,3,8,8]", "[4,3,3,3]", "group=0").find("group"), std::string::npos);
  EXPECT_NE(conv("[1,4,8,8]", "[3,2,3,3]", "group=2").find("divide"), std::string::npos);
  EXPECT_NE(conv("[1,3,8,8]", "[4,3,3]", "group=1").find("rank"), std::string::npos);
  EXPECT_NE(conv("[1,3]", "[4,3]", "group=1").find("rank"), std::string::npos);
  EXPECT_NE(conv("[1,3,2,8]", "[4,3,3,3]", "group=1").find("larger than the padded input"), std::string::npos);
  EXPECT_NE(conv("[1,3,8,8]", "[4,3,3,3]", "kernel_shape=[3,5]").find("kernel_shape"), std::string::npos);
  EXPECT_NE(conv("[1,3,8,8]", "[4,3,3,3]", "auto_pad=\"SAME\"").find("auto_pad"), std::string::npos);
  EXPECT_NE(conv("[1,3,8,8]", "[4,3,3,3]", "dilations=[9223372036854775807,1]").find("overflow"), std::string::npos)
      << conv("[1,3,8,8]", "[4,3,3,3]", "dilations=[9223372036854775807,1]");
}

TEST(ConvTranspose, ShapesAndValues) {
  EXPECT_EQ(shape_of("graph { input x: f32[b,4,h,w]; input w: f32[4,2,2,2]; y = conv_transpose(x, w) {strides=[2,2]}; "
                     "output y }"),
            "[b,2,2*h,2*w]");
  const std::vector<RefTensor> in = {floats({1, 1, 3}, {1, 2, 3}), floats({1, 1, 2}, {1, 10})};
  expect_values(run_text("graph { input x: f32[1,1,3]; input w: f32[1,1,2]; y = conv_transpose(x, w) {strides=[3], "
                         "output_padding=[1]}; output y }",
                         in)[0],
                {1, 10, 0, 2, 20, 0, 3, 30, 0});
  expect_values(run_text("graph { input x: f32[1,1,3]; input w: f32[1,1,2]; y = conv_transpose(x, w) {strides=[2], "
                         "output_shape=[5]}; output y }",
                         in)[0],
                {10, 2, 20, 3, 30});
}

TEST(MaxPool, CeilModeKeepsWindowsThatBeginInside) {
  EXPECT_EQ(shape_of("graph { input x: f32[1,1,2,2]; y = max_pool(x) {ceil_mode=1, kernel_shape=[1,1], strides=[2,2]}; "
                     "output y }"),
            "[1,1,1,1]");
  EXPECT_EQ(shape_of("graph { input x: f32[1,1,5,6]; y = max_pool(x) {ceil_mode=1, kernel_shape=[2,2], strides=[2,2]}; "
                     "output y }"),
            "[1,1,3,3]");
}

// The only window may reach beyond an input that is smaller than it.
TEST(MaxPool, CeilModeTakesAnInputSmallerThanItsWindow) {
  const std::vector<RefTensor> in = {floats({1, 1, 1, 3}, {7, 8, 9})};
  const std::string window = "kernel_shape=[2,2], strides=[2,2]}; output y }";
  expect_values(run_text("graph { input x: f32[1,1,1,3]; y = max_pool(x) {ceil_mode=1, " + window, in)[0], {8, 9});
  expect_values(run_text("graph { input x: f32[1,1,1,3]; y = average_pool(x) {ceil_mode=1, " + window, in)[0],
                {7.5, 9});
}

TEST(Pool, AWindowWithoutAPlaceGivesNothing) {
  const auto shape = [](int n, const char* attributes, const char* op = "max_pool") {
    return shape_of(format("graph { input x: f32[1,1,%d]; y = %s(x) {%s}; output y }", n, op, attributes));
  };
  for (const char* op : {"max_pool", "average_pool", "lp_pool"}) {
    EXPECT_EQ(shape(2, "kernel_shape=[3]", op), "[1,1,0]");
    EXPECT_EQ(shape(3, "kernel_shape=[5], strides=[2]", op), "[1,1,0]");
    EXPECT_EQ(shape(2, "ceil_mode=1, kernel_shape=[5], strides=[2]", op), "[1,1,0]");
  }
  EXPECT_EQ(shape(1, "kernel_shape=[2], dilations=[2], pads=[1,0]"), "[1,1,0]");
  EXPECT_EQ(shape(3, "auto_pad=\"VALID\", ceil_mode=1, kernel_shape=[5], strides=[2]"), "[1,1,0]");
  const auto refused = [](int n, const char* attributes) {
    return refusal(format("graph { input x: f32[1,1,%d]; y = max_pool(x) {%s}; output y }", n, attributes))
               .find("larger") != std::string::npos;
  };
  // Fewer than none; rounded down to none where ONNX Runtime has one.
  for (const char* attributes : {"kernel_shape=[4]", "kernel_shape=[5], strides=[2]", "kernel_shape=[3], strides=[2]",
                                 "ceil_mode=1, kernel_shape=[4]", "ceil_mode=1, kernel_shape=[6], strides=[2]",
                                 "auto_pad=\"VALID\", ceil_mode=1, kernel_shape=[5], strides=[2]"})
    EXPECT_TRUE(refused(2, attributes)) << attributes;
  EXPECT_NE(refusal("graph { input x: f32[1,1,2]; y = max_pool(x) {kernel_shape=[3], strides=[2]}; output y }")
                .find("ceil_mode=1"),
            std::string::npos);
  EXPECT_EQ(shape(2, "ceil_mode=1, kernel_shape=[3], strides=[2]"), "[1,1,1]");
}

TEST(MaxPool, IndicesNanAndTies) {
  const double nan = std::nan("");
  const std::vector<RefTensor> in = {floats({1, 1, 2, 4}, {1, 5, 5, nan, 5, 0, 2, 2})};
  const auto out =
      run_text("graph { input x: f32[1,1,2,4]; y, i = max_pool(x) {kernel_shape=[2,2]}; output y; output i }", in);
  expect_values(out[0], {5, 5, nan});
  EXPECT_EQ(out[1].i, (std::vector<int64_t>{1, 1, 3}));
  const auto columns = run_text(
      "graph { input x: f32[1,1,2,4]; y, i = max_pool(x) {kernel_shape=[2,2], storage_order=1}; output y; output i }",
      in);
  EXPECT_EQ(columns[1].i, (std::vector<int64_t>{2, 2, 6}));
}

TEST(AveragePool, PaddingAndCeil) {
  const std::vector<RefTensor> in = {floats({1, 1, 4}, {1, 2, 3, 4})};
  expect_values(
      run_text("graph { input x: f32[1,1,4]; y = average_pool(x) {kernel_shape=[3], pads=[1,1]}; output y }", in)[0],
      {1.5, 2, 3, 3.5});
  expect_values(run_text("graph { input x: f32[1,1,4]; y = average_pool(x) {count_include_pad=1, kernel_shape=[3], "
                         "pads=[1,1]}; output y }",
                         in)[0],
                {1, 2, 3, 7.0 / 3});
  // The last window holds one element, one pad and one place beyond the padded input, which never counts.
  expect_values(run_text("graph { input x: f32[1,1,4]; y = average_pool(x) {ceil_mode=1, count_include_pad=1, "
                         "kernel_shape=[3], pads=[0,1], strides=[3]}; output y }",
                         in)[0],
                {2, 2});
}

// The padded places of a window are counted, not visited: a million windows of a million places.
TEST(AveragePool, WindowsMuchLargerThanTheImage) {
  const std::vector<RefTensor> in = {floats({1, 1, 2}, {3, 5})};
  const auto y = run_text(
      "graph { input x: f32[1,1,2]; y = average_pool(x) {count_include_pad=1, "
      "kernel_shape=[1000000], pads=[999999,999999]}; output y }",
      in)[0];
  ASSERT_EQ(y.f.size(), 1000001u);
  for (size_t at = 0; at < y.f.size(); at += 1000)
    EXPECT_EQ(y.f[at], (at == 0 ? 3 : at == 1000000 ? 5 : 8) / 1e6) << at;
  EXPECT_EQ(y.f.back(), 5 / 1e6);
  const auto far = run_text(
      "graph { input x: f32[1,1,2]; y = average_pool(x) {ceil_mode=1, count_include_pad=1, "
      "dilations=[3], kernel_shape=[4], pads=[4,5], strides=[2]}; output y }",
      in)[0];
  // Places of the padded input, 11 of them, at 0, 2, ... with steps of 3; the image stands at 4 and 5.
  expect_values(far, {0, 5.0 / 3});
}

TEST(Pool, Refusals) {
  EXPECT_NE(
      refusal("graph { input x: f32[1,1,4]; y = max_pool(x) {kernel_shape=[2], pads=[2,0]}; output y }").find("pad"),
      std::string::npos);
  EXPECT_NE(
      refusal("graph { input x: f32[1,1,4]; y = max_pool(x) {kernel_shape=[2,2]}; output y }").find("kernel_shape"),
      std::string::npos);
  EXPECT_NE(refusal("graph { input x: f32[1,1,4]; y = lp_pool(x) {kernel_shape=[2], p=0}; output y }").find("p is"),
            std::string::npos);
  EXPECT_NE(refusal("graph { input x: f32[4]; y = global_average_pool(x); output y }").find("rank"), std::string::npos);
}

TEST(Window, APoolCostsNoMoreThanItsImageHas) {
  auto g = ir::parse_graph(
      "graph { input x: f32[1,1,2,2]; y = max_pool(x) {kernel_shape=[3000,3000], pads=[2999,2999,2999,2999]}; output y "
      "}");
  ASSERT_TRUE(g.ok() && infer_graph(*g).ok());
  EXPECT_EQ(cost_of(*g->nodes[0]).flops, 3001.0 * 3001 * 4);
}

}  // namespace
}  // namespace peri::ops
