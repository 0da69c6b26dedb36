// Numbers as texts, and texts as numbers: what ONNX Runtime makes of them.
// label: null
#include <gtest/gtest.h>

#include <cmath>

#include "ops/entry.hpp"

namespace peri::ops {
namespace {

Result<RefTensor> cast(DType from, DType to, const RefTensor& x) {
  ir::Graph g;
  ir::Value* const in = g.add_input("x", {from, std::vector<Dim>{Dim(x.numel())}});
  ir::Node* const n = g.add("cast", {in}, {{"to", static_cast<int64_t>(to)}}, "y", 1);
  g.mark_output(n->out(), "y");
  EXPECT_TRUE(infer_graph(g).ok());
  auto out = run_reference(g, std::vector<RefTensor>{x});
  if (!out.ok()) return std::move(out).error();
  return std::move((*out)[0]);
}

TEST(CastText, FloatsHaveEightDigits) {
  RefTensor x = make_ref(DType::kF32, {8});
  x.f = {100000, 1e6, 123456792, static_cast<double>(1.0f / 3), static_cast<double>(0.1f), -0.0, INFINITY, NAN};
  const auto y = cast(DType::kF32, DType::kString, x);
  ASSERT_TRUE(y.ok()) << y.error().text();
  EXPECT_EQ(y->s,
            (std::vector<std::string>{"100000", "1000000", "1.2345679e+08", "0.33333334", "0.1", "-0", "INF", "NaN"}));
  RefTensor wide = make_ref(DType::kF64, {2});
  wide.f = {1.0 / 3, 1e10};
  EXPECT_EQ(cast(DType::kF64, DType::kString, wide)->s, (std::vector<std::string>{"0.33333333", "1e+10"}));
}

TEST(CastText, IntegersOfMoreThan64BitsAreRefused) {
  const auto read = [](DType to, const std::string& text) {
    RefTensor x = make_ref(DType::kString, {1});
    x.s[0] = text;
    return cast(DType::kString, to, x);
  };
  EXPECT_EQ(read(DType::kI64, "9223372036854775807")->i[0], INT64_MAX);
  EXPECT_EQ(read(DType::kI64, "-9223372036854775808")->i[0], INT64_MIN);
  EXPECT_EQ(read(DType::kI64, "12.9")->i[0], 12);
  EXPECT_EQ(static_cast<uint64_t>(read(DType::kU64, "18446744073709551615")->i[0]), UINT64_MAX);
  for (const char* text : {"9223372036854775808", "18446744073709551615", "99999999999999999999", "-1e19", "nan"}) {
    const auto y = read(DType::kI64, text);
    ASSERT_FALSE(y.ok()) << text;
    EXPECT_NE(y.error().text().find(text), std::string::npos) << y.error().text();
  }
}

}  // namespace
}  // namespace peri::ops
