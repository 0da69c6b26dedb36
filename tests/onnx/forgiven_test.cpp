// What ONNX Runtime forgives is forgiven: sizes without a name, what is given twice, domains
// imported twice or not at all, forms before opset 7.
#include <gtest/gtest.h>

#include "ops/entry.hpp"
#include "tests/onnx/models.hpp"

namespace peri::onnx::tests {
namespace {
using P = pb::TensorProto;

std::string floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(float)};
}
void set(pb::NodeProto* n, const std::string& name, int64_t value) {
  attr(n, name, pb::AttributeProto::INT)->set_i(value);
}
void set(pb::NodeProto* n, const std::string& name, const std::vector<int64_t>& values) {
  auto* a = attr(n, name, pb::AttributeProto::INTS);
  for (int64_t v : values) a->add_ints(v);
}
ops::RefTensor filled(const std::vector<int64_t>& dims, double first) {
  ops::RefTensor t = ops::make_ref(DType::kF32, dims);
  for (size_t k = 0; k < t.f.size(); ++k) t.f[k] = first + static_cast<double>(k);
  return t;
}
std::vector<double> answer(const ImportedModel& m, const std::vector<ops::RefTensor>& inputs) {
  auto out = ops::run_reference(m.graph, inputs);
  EXPECT_TRUE(out.ok()) << out.error().text();
  return out.ok() ? (*out)[0].f : std::vector<double>();
}

TEST(Forgiven, UnknownSizesAreOfTheirOwn) {
  for (const std::string unknown : {"?", "-1", ""}) {
    pb::ModelProto m = relu_model({"a", "a", "3"});
    for (int k = 0; k < 2; ++k)
      for (auto* v : {m.mutable_graph()->mutable_input(0), m.mutable_graph()->mutable_output(0)})
        v->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(k)->set_dim_param(unknown);
    auto r = load(m);
    ASSERT_TRUE(r.ok()) << unknown << ": " << r.error().text();
    EXPECT_EQ(ir::type_text(r->graph.outputs[0]->type), "f32[x_dim_0,x_dim_1,3]") << unknown;
  }
}

TEST(Forgiven, WhatIsDeclaredOfAnOutputsShapeIsNoted) {
  for (const std::vector<std::string>& declared : {std::vector<std::string>{"1", "n"}, {"2", "7"}, {}}) {
    pb::ModelProto m = relu_model({"2", "a", "3"});
    auto* shape = m.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->clear_dim();
    for (const std::string& d : declared)
      if (d == "n")
        shape->add_dim()->set_dim_param(d);
      else
        shape->add_dim()->set_dim_value(std::stoll(d));
    auto r = load(m);
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(ir::type_text(r->graph.outputs[0]->type), "f32[2,a,3]");
    ASSERT_EQ(r->report.notes.size(), 1u);
    EXPECT_NE(r->report.notes[0].find("it has f32[2,a,3]"), std::string::npos) << r->report.notes[0];
  }
  pb::ModelProto m = relu_model({"2", "a", "3"});
  m.mutable_graph()
      ->mutable_output(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(2)
      ->set_dim_value(4);
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(ir::type_text(r->graph.outputs[0]->type), "f32[2,a,3]");
}

TEST(Forgiven, TheLastVersionOfADomainCounts) {
  for (const int64_t last : {12, 17}) {
    pb::ModelProto m = model(last == 12 ? 17 : 12);
    auto* again = m.add_opset_import();
    again->set_domain("ai.onnx");
    again->set_version(last);
    input(m, "x", {"1", "3"});
    untyped_output(m, "y");
    set(node(m, "Squeeze", {"x"}, {"y"}), "axes", std::vector<int64_t>{0});  // an attribute until opset 12
    auto r = load(m);
    EXPECT_EQ(r.ok(), last == 12);
    if (!r.ok()) continue;
    ASSERT_EQ(r->report.notes.size(), 1u);
    EXPECT_NE(r->report.notes[0].find("17 and 12"), std::string::npos) << r->report.notes[0];
  }
}

TEST(Forgiven, TheLastInitializerOfANameCounts) {
  pb::ModelProto m = model();
  input(m, "x", {"2"});
  untyped_output(m, "y");
  initializer(m, "w", {2}, floats({10, 20}));
  initializer(m, "w", {2}, floats({1, 2}));
  node(m, "Mul", {"x", "w"}, {"y"});
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  ASSERT_EQ(r->report.notes.size(), 1u);
  EXPECT_EQ(r->report.notes[0], "initializer 'w' is given twice; the last one counts");
  EXPECT_EQ(r->report.weight_count, 1);
  EXPECT_EQ(answer(*r, {filled({2}, 3)}), (std::vector<double>{3, 8}));
}

TEST(Forgiven, AnInputWithoutAShapeHasTheRankThatIsAskedFor) {
  pb::ModelProto m = relu_model({"2"});
  m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_NE(error(m).find("the rank of input 'x' is not known"), std::string::npos) << error(m);
  EXPECT_NE(error(m).find("--shapes NAME:AxB"), std::string::npos) << error(m);
  const std::string bytes = m.SerializeAsString();
  auto r = import_bytes(bytes, nullptr, "m.onnx", ".", {.ranks = {{"x", 2}}});
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(ir::type_text(r->graph.outputs[0]->type), "f32[x_dim_0,x_dim_1]");
}

TEST(Forgiven, AnOutputGivenTwiceIsOne) {
  pb::ModelProto m = relu_model({"2"});
  *m.mutable_graph()->add_output() = m.graph().output(0);
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  ASSERT_EQ(r->report.notes.size(), 1u);
  EXPECT_EQ(r->report.notes[0], "output 'y' is given twice; it is one output");
  EXPECT_EQ(r->graph.output_names, std::vector<std::string>{"y"});
}

TEST(Forgiven, DomainsThatAreNotImportedAreTakenAtTheirUsualVersions) {
  for (const std::string domain : {"com.microsoft", "ai.onnx.ml", ""}) {
    pb::ModelProto m = model();
    m.mutable_opset_import(0)->set_domain(domain.empty() ? "mine" : "");
    input(m, "x", {"1", "2"});
    untyped_output(m, "y");
    auto* n = node(m, domain.empty() ? "Relu" : domain == "ai.onnx.ml" ? "Binarizer" : "Gelu", {"x"}, {"y"});
    n->set_domain(domain);
    auto r = load(m);
    ASSERT_TRUE(r.ok()) << domain << ": " << r.error().text();
    ASSERT_EQ(r->report.notes.size(), 1u) << domain;
    const std::string name = domain.empty() ? "ai.onnx" : domain;
    EXPECT_EQ(r->report.notes[0].find("domain '" + name + "' is not imported"), 0u) << r->report.notes[0];
  }
  pb::ModelProto other = model();
  input(other, "x", {"2"});
  untyped_output(other, "y");
  node(other, "Relu", {"x"}, {"y"})->set_domain("mine");
  EXPECT_NE(error(other).find("its domain is not known"), std::string::npos) << error(other);
}

TEST(Forgiven, BytesOfOnnxRuntimesQuantiserAreThoseOfOnnx) {
  for (const auto type : {P::UINT8, P::INT8, P::UINT16, P::INT16}) {
    pb::ModelProto m = model();
    input(m, "x", {"2"});
    untyped_output(m, "y");
    initializer(m, "s", {}, floats({0.5}));
    initializer(m, "z", {}, std::string(type == P::UINT8 || type == P::INT8 ? 1 : 2, '\2'), type);
    node(m, "QuantizeLinear", {"x", "s", "z"}, {"q"})->set_domain("com.microsoft");
    node(m, "DequantizeLinear", {"q", "s", "z"}, {"y"})->set_domain("com.microsoft");
    auto r = load(m);
    ASSERT_TRUE(r.ok()) << r.error().text();
    ASSERT_EQ(r->graph.nodes.size(), 2u);
    EXPECT_EQ(r->graph.nodes[0]->op, "quantize_linear");
    EXPECT_EQ(answer(*r, {filled({2}, 3)}), (std::vector<double>{3, 4}));
  }
}

TEST(Forgiven, FirstFormsMeanWhatLaterOnesDo) {
  pb::ModelProto m = model(1);
  input(m, "x", {"2", "3", "2"});
  untyped_output(m, "y");
  initializer(m, "b", {3}, floats({10, 20, 30}));
  auto* add = node(m, "Add", {"x", "b"}, {"a"});
  set(add, "broadcast", 1);
  set(add, "axis", 1);
  set(add, "consumed_inputs", std::vector<int64_t>{0, 0});
  set(node(m, "Relu", {"a"}, {"r"}), "consumed_inputs", std::vector<int64_t>{0});
  set(node(m, "Reshape", {"r"}, {"s"}), "shape", std::vector<int64_t>{4, 3});
  attr(node(m, "Cast", {"s"}, {"c"}), "to", pb::AttributeProto::STRING)->set_s("FLOAT");
  node(m, "Concat", {"c", "c"}, {"t"});  // along axis 1
  set(node(m, "Pad", {"t"}, {"y"}), "paddings", std::vector<int64_t>{0, 0, 1, 0});
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(ir::type_text(r->graph.outputs[0]->type), "f32[5,6]");
  const std::vector<double> y = answer(*r, {filled({2, 3, 2}, 0)});
  ASSERT_EQ(y.size(), 30u);
  const std::vector<double> row = {10, 11, 22, 10, 11, 22};  // x + b is 10 11 22 23 34 35 16 17 28 29 40 41
  EXPECT_EQ(std::vector<double>(y.begin(), y.begin() + 6), row);
  EXPECT_EQ(std::vector<double>(y.begin() + 24, y.end()), std::vector<double>(6, 0));
}

TEST(Forgiven, TrainingIsNot) {
  for (const bool test : {true, false}) {
    pb::ModelProto m = model(6);
    input(m, "x", {"2", "3"});
    untyped_output(m, "y");
    set(node(m, "Dropout", {"x"}, {"y"}), "is_test", test);
    EXPECT_EQ(error(m) == "accepted", test) << error(m);
    if (!test) EXPECT_NE(error(m).find("is_test=1"), std::string::npos) << error(m);
  }
}

TEST(Forgiven, LaterOpsetsHaveNoFirstForms) {
  pb::ModelProto m = model(7);
  input(m, "x", {"2", "3"});
  untyped_output(m, "y");
  set(node(m, "Add", {"x", "x"}, {"y"}), "broadcast", 1);
  EXPECT_NE(error(m).find("no attribute 'broadcast'"), std::string::npos) << error(m);
}

}  // namespace
}  // namespace peri::onnx::tests
