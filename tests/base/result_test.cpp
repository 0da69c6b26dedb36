// A Result carries a value or an Error in full, and the macros pass errors on.
#include "base/result.hpp"

#include <gtest/gtest.h>

namespace peri {
namespace {

Result<int> half(int v) {
  if (v % 2 != 0) return invalid("%d is odd", v);
  return v / 2;
}

Result<int> quarter(int v) {
  PERI_ASSIGN(const int h, half(v));
  return half(h);
}

Status all_even(int a, int b) {
  PERI_TRY(half(a));
  PERI_TRY(half(b));
  return Ok{};
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(half(8).value(), 4);
  ASSERT_FALSE(half(3).ok());
  EXPECT_EQ(half(3).error().message, "3 is odd");
  EXPECT_EQ(half(3).error().kind, ErrorKind::kInvalid);
}

TEST(Result, MacrosPassErrorsOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_TRUE(all_even(2, 4).ok());
  EXPECT_EQ(all_even(2, 5).error().message, "5 is odd");
}

TEST(Error, TextNamesFileNodeExpectationAndRemedyOnOneLine) {
  const Error error =
      invalid("bad rank").in_file("m.onnx").at_node("conv1").expecting("4").but_found("3").advise("fix it");
  EXPECT_EQ(error.text(), "m.onnx: 'conv1': bad rank: expected 4, found 3; fix it");
}

TEST(Error, NamesAreEscapedAsInTables) {
  const Error error = invalid("no input '%s'", "x\ny").in_file("a\nb.onnx").at_node("c\td").but_found("'z\t'");
  EXPECT_EQ(error.text(), "a\\x0ab.onnx: 'c\\x09d': no input 'x\\x0ay': found 'z\\x09'");
}

TEST(Error, LongValuesAreShortenedWhereverTheyAreQuoted) {
  const std::string value(100000, 'x');
  const std::string shown = "'" + std::string(100, 'x') + "... (100000 bytes)'";
  const Error error = invalid("no word '%s' in the model's list", value.c_str())
                          .at_node(value)
                          .expecting("'a', '" + value + "' and 3 more")
                          .but_found("'" + value + "'");
  EXPECT_EQ(error.text(), shown + ": no word " + shown + " in the model's list: expected 'a', " + shown +
                              " and 3 more, found " + shown);
  EXPECT_EQ(error.found, shown);
  EXPECT_LT(invalid("%s", value.c_str()).text().size(), 9000u) << "of no value in quotation marks";
  const std::string umlauts = invalid("'%s'", ("x" + std::string(300, '\xc3') + "").c_str()).text();
  EXPECT_LT(umlauts.size(), 1000u);
  EXPECT_EQ(invalid("the step's '%s' isn't the engine's", std::string(200, 'y').c_str()).text().size(), 200u + 32u);
}

TEST(Error, InnermostPlaceIsKept) {
  Error error = invalid("x").in_file("inner");
  EXPECT_EQ(std::move(error).in_file("outer").file, "inner");
}

TEST(Error, KindDecidesTheExitCode) {
  EXPECT_EQ(exit_code(ErrorKind::kUsage), 2);
  EXPECT_EQ(exit_code(ErrorKind::kAccuracy), 3);
  EXPECT_EQ(exit_code(ErrorKind::kRegression), 4);
  EXPECT_EQ(exit_code(ErrorKind::kUnstable), 5);
  EXPECT_EQ(exit_code(ErrorKind::kIo), 1);
}

}  // namespace
}  // namespace peri
