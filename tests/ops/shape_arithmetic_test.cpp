// What exporters compute from shapes is solved while shapes are inferred, and what is solved is what the run computes.
#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

// Text of the content of the first output.
std::string content_of(std::string_view text) {
  auto g = ir::parse_graph(text);
  if (!g.ok()) return g.error().text();
  const Status s = infer_graph(*g);
  if (!s.ok()) return s.error().text();
  return g->outputs[0]->content ? shape_text(*g->outputs[0]->content) : "unknown";
}

// One that the data decide may be 0: so is the result then, and else it is the larger; again with either it stays.
TEST(ShapeArithmetic, SizesThatTheDataDecideAreBroadcast) {
  const std::string head = "graph { input x: f32[n]; input s: i64[1]; c = constant_of_shape(s); ";
  const std::string size = shape_of(head + "y = add(x, c); output y }");
  for (const char* again : {"y = add(c, x);", "a = add(x, c); y = add(a, x);", "a = add(c, x); y = add(c, a);",
                            "a = add(x, c); b = mul(a, a); d = add(x, b); y = add(d, c);"})
    EXPECT_EQ(shape_of(head + again + " output y }"), size) << again;
  for (const auto& [n, k, want] : {std::tuple{1, 3, 3}, {3, 1, 3}, {3, 3, 3}, {1, 0, 0}}) {
    const std::vector<RefTensor> in = {floats({n}, std::vector<double>(static_cast<size_t>(n), 1)), ints({1}, {k})};
    auto g = ir::parse_graph(head + "y = add(x, c); output y }");
    ASSERT_TRUE(g.ok() && infer_graph(*g).ok());
    const std::string data = (*g->find("c")->type.shape)[0].symbol_name();
    const auto dims = eval(*g->find("y")->type.shape, DimBinding{{"n", n}, {data, k}});
    ASSERT_TRUE(dims.ok()) << dims.error().text();
    EXPECT_EQ((*dims)[0], want) << n << " and " << k;
    EXPECT_EQ(run_text(head + "y = add(x, c); output y }", in)[0].dims[0], want);
  }
}

// One half of an odd number is longer; only where the other is 1 it is broadcast, and where that is 0, so is the
// result.
TEST(ShapeArithmetic, HalvesAreBroadcast) {
  const std::string head = R"(graph { input x: f32[n]; const none: i64[1] = [0]; const two: i64[1] = [2];
      const end: i64[1] = [100000]; const axis: i64[1] = [0]; s = shape(x); half = div(s, two);
      a = slice(x, none, half, axis); b = slice(x, half, end, axis); )";
  const std::string size = shape_of(head + "y = mul(a, b); output y }");
  for (const char* again : {"y = mul(b, a);", "c = mul(a, b); y = add(c, a);", "c = mul(b, a); y = add(b, c);",
                            "c = mul(a, b); d = add(c, a); e = add(b, c); y = mul(d, e);"})
    EXPECT_EQ(shape_of(head + again + " output y }"), size) << again;
  for (const auto& [n, want] : {std::pair{1, 0}, {2, 1}, {3, 2}, {4, 2}}) {
    const std::vector<RefTensor> in = {floats({n}, std::vector<double>(static_cast<size_t>(n), 1))};
    auto g = ir::parse_graph(head + "y = mul(a, b); output y }");
    ASSERT_TRUE(g.ok() && infer_graph(*g).ok());
    const auto dims = eval(*g->find("y")->type.shape, DimBinding{{"n", n}});
    ASSERT_TRUE(dims.ok()) << dims.error().text();
    EXPECT_EQ((*dims)[0], want) << n;
    EXPECT_EQ(run_text(head + "y = mul(a, b); output y }", in)[0].dims[0], want) << n;
  }
}

TEST(ShapeArithmetic, ReshapeFromShapes) {
  // x.view(batch, sequence, heads, size): shape, slices, unsqueeze, concat.
  EXPECT_EQ(shape_of(R"(graph { input x: f32[b,s,768];
      const zero: i64[1] = [0]; const one: i64[1] = [1]; const two: i64[1] = [2]; const heads: i64[2] = [12, -1];
      t = shape(x); first = slice(t, zero, one); second = slice(t, one, two); axes = concat(first, second, heads) {axis=0};
      y = reshape(x, axes); output y })"),
            "[b,s,12,64]");
  EXPECT_EQ(shape_of("graph { input x: f32[b,3*s + 2,8]; const t: i64[3] = [-1, 4, 2]; y = reshape(x, t); output y }"),
            "[2*b + 3*b*s,4,2]");
  EXPECT_EQ(shape_of("graph { input x: f32[b,s,768]; const t: i64[4] = [0, 0, 12, 64]; y = reshape(x, t); output y }"),
            "[b,s,12,64]");
  EXPECT_EQ(shape_of("graph { input x: f32[b,s + p,6]; const t: i64[3] = [0, -1, 3]; y = reshape(x, t); output y }"),
            "[b,2*p + 2*s,3]");
}

TEST(ShapeArithmetic, ExpandWithChosenOnes) {
  // torch's expand: where(equal(size, -1), ones, size).
  EXPECT_EQ(shape_of(R"(graph { input x: f32[b,1]; input like: f32[b,s]; const minus: i64[] = [-1];
      t = shape(like); is = equal(t, minus); n = shape(t); ones = constant_of_shape(n) {value=tensor i64[1] [1]};
      size = where(is, ones, t); y = expand(x, size); output y })"),
            "[b,s]");
}

TEST(ShapeArithmetic, RangesAndMasks) {
  EXPECT_EQ(
      shape_of(R"(graph { input x: i64[b,s]; const start: i64[] = [0]; const step: i64[] = [1]; const axis: i64[] = [1];
      t = shape(x) {start=1}; none = squeeze(t); y = range(start, none, step); output y })"),
      "[s]");
  EXPECT_EQ(
      content_of(
          "graph { const a: i64[] = [2]; const l: i64[] = [9]; const d: i64[] = [3]; y = range(a, l, d); output y }"),
      "[2,5,8]");
  // Position table cut to the sequence.
  EXPECT_EQ(
      shape_of(
          R"(graph { input ids: i64[b,s]; input table: f32[1,512,8]; const zero: i64[1] = [0]; const axis: i64[1] = [1];
      n = shape(ids) {start=1}; y = slice(table, zero, n, axis); output y })"),
      "[1,min(512, s),8]");
}

TEST(ShapeArithmetic, DivisionTruncates) {
  EXPECT_EQ(content_of("graph { input x: f32[s + 3]; const d: i64[] = [2]; t = shape(x); y = div(t, d); output y }"),
            "[floordiv(s + 1, 2) + 1]");
  EXPECT_EQ(content_of("graph { input x: f32[s]; const d: i64[] = [2]; const k: i64[] = [5]; t = shape(x); m = sub(t, "
                       "k); y = div(m, d); output y }"),
            "[-floordiv(max(-s + 5, 0), 2) + floordiv(max(0, s - 5), 2)]");
  // -(-s // 2), as exporters round up.
  EXPECT_EQ(content_of("graph { input x: f32[s]; const d: i64[] = [2]; t = shape(x); n = neg(t); q = div(n, d); y = "
                       "neg(q); output y }"),
            "[floordiv(s, 2)]");
  EXPECT_EQ(content_of("graph { const n: i64[3] = [-7, 7, -8]; const d: i64[] = [-2]; y = div(n, d); output y }"),
            "[3,-3,4]");
  EXPECT_EQ(content_of("graph { const n: i64[3] = [-7, 7, -8]; const d: i64[] = [2]; y = div(n, d); output y }"),
            "[-3,3,-4]");
  EXPECT_EQ(content_of("graph { const n: i64[3] = [-7, 7, -8]; const d: i64[] = [2]; y = mod(n, d); output y }"),
            "[1,1,0]");
  EXPECT_EQ(content_of("graph { const n: i64[1] = [7]; const d: i64[] = [0]; y = div(n, d); output y }"), "unknown");
}

TEST(ShapeArithmetic, WrappedNumbersAreNoContent) {
  EXPECT_EQ(content_of("graph { const a: i32[1] = [2147483647]; const b: i32[1] = [1]; y = add(a, b); output y }"),
            "unknown");
  EXPECT_EQ(
      content_of("graph { const a: i64[1] = [9223372036854775807]; const b: i64[1] = [1]; y = add(a, b); output y }"),
      "unknown");
}

TEST(ShapeArithmetic, SlicesClampSymbolically) {
  constexpr const char* kHead = "graph { input x: f32[s,9]; ";
  const auto sliced = [&](const char* starts, const char* ends, const char* axis, const char* step) {
    return shape_of(std::string(kHead) + "const a: i64[1] = [" + starts + "]; const e: i64[1] = [" + ends +
                    "]; const k: i64[1] = [" + axis + "]; const t: i64[1] = [" + step +
                    "]; y = slice(x, a, e, k, t); output y }");
  };
  EXPECT_EQ(sliced("0", "9223372036854775807", "0", "1"), "[s,9]");
  EXPECT_EQ(sliced("-1", "9223372036854775807", "0", "1"), "[1,9]");
  EXPECT_EQ(sliced("-9223372036854775808", "-1", "0", "1"), "[s - 1,9]");
  EXPECT_EQ(sliced("0", "1", "0", "1"), "[1,9]");
  EXPECT_EQ(sliced("-1", "-9223372036854775808", "0", "-1"), "[s,9]");
  EXPECT_EQ(sliced("1", "8", "1", "3"), "[s,3]");
  EXPECT_EQ(sliced("0", "9223372036854775807", "0", "2"), "[floordiv(s + 1, 2),9]");
}

// Dimension symbols inside a graph take the sizes of its inputs; solved contents equal what the reference computes.
TEST(ShapeArithmetic, RunsAsSolved) {
  const auto out =
      run_text("graph { input x: f32[n,4]; y = dims_constant() {value=dims[n,2*n + 1]}; output y; output x }",
               std::vector<RefTensor>{floats({3, 4}, std::vector<double>(12, 0))});
  EXPECT_EQ(out[0].i, (std::vector<int64_t>{3, 7}));
}

TEST(ShapeArithmetic, DataDecides) {
  EXPECT_EQ(shape_of("graph { input x: f32[2,3]; y = non_zero(x); output y }"), "[2,data.nonzero_0]");
  EXPECT_EQ(shape_of("graph { input x: f32[2,3]; input a: i64[1]; y = reduce_sum(x, a) {keepdims=0}; output y }"),
            "[data.reduced_0]");
  EXPECT_EQ(shape_of("graph { input x: f32[2,3]; input a: i64[2]; y = unsqueeze(x, a); output y }"),
            "[data.unsqueezed_0,data.unsqueezed_1,data.unsqueezed_2,data.unsqueezed_3]");
  EXPECT_EQ(shape_of("graph { input x: f32[2,3]; input a: i64[2]; y = reshape(x, a); output y }"),
            "[data.reshaped_0,data.reshaped_1]");
  // What data counts may be none.
  EXPECT_EQ(content_of("graph { input x: f32[2,3]; const o: i64[1] = [1]; const z: i64[] = [0]; n = non_zero(x); s = "
                       "shape(n); c = gather(s, o); y = greater(c, z); output y }"),
            "[min(1, data.nonzero_0)]");
  EXPECT_NE(refusal("graph { input x: f32[2,3]; input a: i64[k]; y = reshape(x, a); output y }"), "");
  EXPECT_NE(refusal("graph { input x: f32[b,3]; y = squeeze(x); output y }"), "");
}

}  // namespace
}  // namespace peri::ops
