// Operators that are not taken are refused by what they are, each with what to do instead.
#include <gtest/gtest.h>

#include "onnx/refusals.hpp"

namespace peri::onnx {
namespace {

TEST(Refusals, EveryKindSaysWhatToDo) {
  const struct {
    const char *domain, *op, *why, *remedy;
  } rows[] = {
      {"", "ImageDecoder", "images", "pixels"},
      {"", "NoSuchOperator", "no definition", "other operators"},
      {"ai.onnx.ml", "DictVectorizer", "maps", "columns of features"},
      {"ai.onnx.ml", "NoSuchOperator", "classical", "outside the model"},
      {"com.microsoft", "BeamSearch", "ONNX Runtime", "operators of ONNX in its place"},
      {"ai.onnx.preview.training", "Adam", "training", "inference"},
  };
  for (const auto& row : rows) {
    Refusal r;
    EXPECT_EQ(find_definition(row.domain, row.op, 22, &r), nullptr) << row.op;
    EXPECT_NE(r.reason.find(row.why), std::string::npos) << row.op << ": " << r.reason;
    EXPECT_NE(r.remedy.find(row.remedy), std::string::npos) << row.op << ": " << r.remedy;
  }
}

}  // namespace
}  // namespace peri::onnx
