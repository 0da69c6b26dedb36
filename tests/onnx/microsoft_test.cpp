// Operators of com.microsoft where no answer of ONNX Runtime says what they mean: it has no kernel, or takes another
// meaning than it documents.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/entry.hpp"
#include "tests/onnx/models.hpp"

namespace peri::onnx::tests {
namespace {
using P = pb::TensorProto;
using A = pb::AttributeProto;

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
pb::NodeProto* microsoft(pb::ModelProto& m, const std::string& op, const std::vector<std::string>& in) {
  auto* n = node(m, op, in, {"y"});
  n->set_domain("com.microsoft");
  return n;
}
ops::RefTensor answer(const pb::ModelProto& m, const ops::RefTensor& x) {
  auto r = load(m);
  EXPECT_TRUE(r.ok()) << r.error().text();
  if (!r.ok()) return {};
  auto out = ops::run_reference(r->graph, std::vector{x});
  EXPECT_TRUE(out.ok()) << out.error().text();
  return out.ok() ? (*out)[0] : ops::RefTensor();
}

// ONNX Runtime takes 8 for all zero points where there is an order.
TEST(Microsoft, TheOrderOfBlocksIsThatOfZeroPointsToo) {
  constexpr int kDepth = 32, kBlock = 16;
  pb::ModelProto m = model();
  input(m, "x", {"1", std::to_string(kDepth)});
  untyped_output(m, "y");
  initializer(m, "b", {1, 2, kBlock / 2}, std::string(kBlock, '\x99'), P::UINT8);
  initializer(m, "s", {2}, floats({1, 10}));
  initializer(m, "z", {1}, "\x75", P::UINT8);  // 5 of the first block, 7 of the second
  std::vector<int32_t> order(kDepth, 0);
  std::fill(order.begin(), order.begin() + kBlock, 1);
  initializer(m, "g", {kDepth}, {reinterpret_cast<const char*>(order.data()), kDepth * sizeof(int32_t)}, P::INT32);
  auto* n = microsoft(m, "MatMulNBits", {"x", "b", "s", "z", "g"});
  for (const auto& [name, value] : std::map<std::string, int64_t>{{"K", kDepth}, {"N", 1}, {"block_size", kBlock}})
    attr(n, name, A::INT)->set_i(value);
  ops::RefTensor x = ops::make_ref(DType::kF32, {1, kDepth});
  x.f[0] = x.f[kBlock + 4] = 1;
  EXPECT_EQ(answer(m, x).f, std::vector<double>{(9 - 7) * 10 + (9 - 5)});
}

TEST(Microsoft, MeansOfBytesAreBytes) {
  pb::ModelProto m = model();
  input(m, "x", {"2", "3"}, P::UINT8);
  untyped_output(m, "y");
  initializer(m, "s", {}, floats({0.5}));
  initializer(m, "z", {}, "\x02", P::UINT8);
  initializer(m, "t", {}, floats({0.25}));
  auto* n = microsoft(m, "QLinearReduceMean", {"x", "s", "z", "t", "z"});
  attr(n, "axes", A::INTS)->add_ints(-1);
  attr(n, "keepdims", A::INT)->set_i(0);
  ops::RefTensor x = ops::make_ref(DType::kU8, {2, 3});
  x.i = {2, 4, 6, 10, 10, 10};  // 0, 1, 2; 4 each
  const ops::RefTensor y = answer(m, x);
  EXPECT_EQ(y.dims, std::vector<int64_t>{2});
  EXPECT_EQ(y.i, (std::vector<int64_t>{4 + 2, 16 + 2}));
}

TEST(Microsoft, AnActivationThatIsNotKnownIsNamed) {
  pb::ModelProto m = model();
  input(m, "x", {"1", "1", "4"});
  untyped_output(m, "y");
  initializer(m, "w", {1, 1, 2}, floats({1, 2}));
  auto* n = microsoft(m, "FusedConv", {"x", "w"});
  n->set_name("fused");
  attr(n, "activation", A::STRING)->set_s("Mish");
  const std::string text = error(m);
  for (const char* part : {"'fused'", "'Mish' is not known", "without ONNX Runtime's graph optimisations"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

// They are replaced before inference, which would refuse these.
TEST(Microsoft, WhatIsMissingIsRefusedBeforeItIsRead) {
  const auto refused = [](const std::vector<std::string>& inputs, bool shaped, bool counted) {
    pb::ModelProto m = model();
    input(m, "x", {});
    if (!shaped) m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    untyped_output(m, "y");
    initializer(m, "w", {2, 6}, std::string(48, '\0'));
    auto* n = microsoft(m, "Attention", inputs);
    if (counted) attr(n, "num_heads", A::INT)->set_i(1);
    return error(m);
  };
  EXPECT_NE(refused({"x", "w"}, false, true).find("the rank of input 'x' is not known"), std::string::npos);
  EXPECT_NE(refused({"x", "w"}, true, true).find("the input has a wrong shape"), std::string::npos);
  EXPECT_NE(refused({"x"}, true, true).find("needs its input 'weights'"), std::string::npos);
  EXPECT_NE(refused({"x", "w"}, true, false).find("needs its attribute 'num_heads'"), std::string::npos);
}

}  // namespace
}  // namespace peri::onnx::tests
