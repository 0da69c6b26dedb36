// Forms of opset 1 to 6 that are written in another way mean what later ones do.
#include <gtest/gtest.h>

#include "ops/entry.hpp"
#include "tests/onnx/models.hpp"

namespace peri::onnx::tests {
namespace {
using A = pb::AttributeProto;

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// The answer to 0, 1, 2 ...
std::vector<double> counted(const pb::ModelProto& m, const std::vector<int64_t>& dims, size_t output = 0) {
  auto r = load(m);
  EXPECT_TRUE(r.ok()) << r.error().text();
  if (!r.ok()) return {};
  ops::RefTensor x = ops::make_ref(DType::kF32, dims);
  for (size_t k = 0; k < x.f.size(); ++k) x.f[k] = static_cast<double>(k);
  auto out = ops::run_reference(r->graph, std::vector{x});
  EXPECT_TRUE(out.ok()) << out.error().text();
  return out.ok() ? (*out)[output].f : std::vector<double>();
}
pb::ModelProto of_image(const Dims& dims, int64_t opset) {
  pb::ModelProto m = model(opset);
  input(m, "x", dims);
  untyped_output(m, "y");
  return m;
}

TEST(FirstForms, AveragesLeaveOutPadding) {
  pb::ModelProto m = of_image({"1", "1", "2", "2"}, 1);
  auto* n = node(m, "AveragePool", {"x"}, {"y"});
  for (const char* name : {"kernel_shape", "pads"})
    for (int k = 0; k < (*name == 'k' ? 2 : 4); ++k) {
      if (k == 0) attr(n, name, A::INTS);
      n->mutable_attribute(n->attribute_size() - 1)->add_ints(*name == 'k' ? 2 : k < 2);
    }
  EXPECT_EQ(counted(m, {1, 1, 2, 2}), (std::vector<double>{0, 0.5, 1, 1.5}));
}

TEST(FirstForms, SlopesStandAtChannels) {
  for (const int64_t opset : {1, 6}) {
    pb::ModelProto m = of_image({"1", "2", "2", "2"}, opset);
    initializer(m, "one", {1}, floats({-1}));
    initializer(m, "s", {2}, floats({2, 3}));
    node(m, "Mul", {"x", "one"}, {"n"});
    attr(m.mutable_graph()->mutable_node(0), "broadcast", A::INT)->set_i(1);
    auto* n = node(m, "PRelu", {"n", "s"}, {"y"});
    if (opset == 1) attr(n, "consumed_inputs", A::INTS)->add_ints(0);
    EXPECT_EQ(counted(m, {1, 2, 2, 2}), (std::vector<double>{0, -2, -4, -6, -12, -15, -18, -21})) << opset;
  }
}

TEST(FirstForms, InstancesAreNormalised) {
  pb::ModelProto m = of_image({"1", "1", "2"}, 1);
  initializer(m, "s", {1}, floats({2}));
  initializer(m, "b", {1}, floats({1}));
  auto* n = node(m, "InstanceNormalization", {"x", "s", "b"}, {"y"});
  attr(n, "consumed_inputs", A::INTS)->add_ints(0);
  attr(n, "epsilon", A::FLOAT)->set_f(0);
  EXPECT_EQ(counted(m, {1, 1, 2}), (std::vector<double>{-1, 3}));
}

TEST(FirstForms, NormsAreWhole) {
  for (const float p : {1.0F, 2.5F}) {
    pb::ModelProto m = of_image({"1", "1", "4"}, 1);
    attr(node(m, "GlobalLpPool", {"x"}, {"y"}), "p", A::FLOAT)->set_f(p);
    if (p == 1)
      EXPECT_EQ(counted(m, {1, 1, 4}), std::vector<double>{6});
    else
      EXPECT_NE(error(m).find("a norm that is not whole: expected p of 1, 2, ..., found 2.5"), std::string::npos);
  }
}

TEST(FirstForms, CellsSaidWhetherTheirFirstOutputIsUsed) {
  pb::ModelProto m = of_image({"1", "1", "1"}, 1);
  initializer(m, "w", {1, 1, 1}, floats({1}));
  initializer(m, "r", {1, 1, 1}, floats({1}));
  auto* n = node(m, "RNN", {"x", "w", "r"}, {"y"});
  attr(n, "hidden_size", A::INT)->set_i(1);
  attr(n, "output_sequence", A::INT)->set_i(1);
  EXPECT_EQ(counted(m, {1, 1, 1}), std::vector<double>{0});
}

TEST(FirstForms, PartsHaveLengthsInFloat) {
  for (const bool named : {true, false}) {
    pb::ModelProto m = of_image({"1", "3"}, 1);
    untyped_output(m, "z");
    initializer(m, "s", {2}, floats({1, 2}));
    auto* n = node(m, "Split", {"x", "s"}, {"y", "z"});
    if (named) attr(n, "axis", A::INT)->set_i(1);
    if (named)
      EXPECT_EQ(counted(m, {1, 3}, 1), (std::vector<double>{1, 2}));
    else
      EXPECT_NE(error(m).find("axis is not named"), std::string::npos) << error(m);
  }
}

TEST(FirstForms, OneAxisIsRepeated) {
  for (const float axis : {1.0F, 2.0F}) {
    pb::ModelProto m = of_image({"1", "2"}, 5);
    initializer(m, "n", {}, floats({2}));
    initializer(m, "a", {}, floats({axis}));
    node(m, "Tile", {"x", "n", "a"}, {"y"});
    if (axis == 1)
      EXPECT_EQ(counted(m, {1, 2}), (std::vector<double>{0, 1, 0, 1}));
    else
      EXPECT_NE(error(m).find("repeats one axis"), std::string::npos) << error(m);
  }
}

TEST(FirstForms, ImagesGrowByTwoScales) {
  pb::ModelProto m = of_image({"1", "1", "1", "2"}, 1);
  auto* n = node(m, "Upsample", {"x"}, {"y"});
  attr(n, "height_scale", A::FLOAT)->set_f(1);
  attr(n, "width_scale", A::FLOAT)->set_f(2);
  EXPECT_EQ(counted(m, {1, 1, 1, 2}), (std::vector<double>{0, 0, 1, 1}));
}

}  // namespace
}  // namespace peri::onnx::tests
