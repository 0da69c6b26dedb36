// What a good model becomes: types, symbols, constants, order, older versions, functions, and the list of what is
// missing.
#include "onnx/import.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/entry.hpp"
#include "tests/onnx/models.hpp"
#include "tests/places.hpp"

namespace peri::onnx::tests {
namespace {

using P = pb::TensorProto;
using A = pb::AttributeProto;

std::string type_of(const ImportedModel& m, const char* value) {
  const ir::Value* v = m.graph.find(value);
  return v ? ir::type_text(v->type) : "no such value";
}

std::string source_file(const char* name) { return std::string(peri::tests::kSourceDir) + "/models/" + name; }

TEST(Import, TrainedModelsOfTheTree) {
  auto cnn = import_model(source_file("digits_cnn.onnx"));
  ASSERT_TRUE(cnn.ok()) << cnn.error().text();
  ASSERT_EQ(cnn->graph.outputs.size(), 1u);
  EXPECT_EQ(cnn->graph.output_names[0], "logits");
  EXPECT_EQ(ir::type_text(cnn->graph.outputs[0]->type), "f32[batch,10]");
  ASSERT_EQ(cnn->symbols.size(), 1u);
  EXPECT_EQ(cnn->symbols[0].name, "batch");
  EXPECT_EQ(cnn->symbols[0].axes, std::vector<std::string>{"image.0"});
  EXPECT_TRUE(ir::verify_structure(cnn->graph).ok());
  auto transformer = import_model(source_file("digits_transformer.onnx"));
  ASSERT_TRUE(transformer.ok()) << transformer.error().text();
  EXPECT_EQ(ir::type_text(transformer->graph.outputs[0]->type), "f32[batch,10]");
  EXPECT_TRUE(transformer->check_files().ok());
}

TEST(Import, StrippedWeightsAreNamed) {
  auto r = import_model(source_file("resnet50.stripped.onnx"));
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::kInvalid);
  EXPECT_FALSE(r.error().node.empty());
  EXPECT_NE(r.error().text().find("models/materialize.py"), std::string::npos) << r.error().text();
  auto report = survey_model(source_file("resnet50.stripped.onnx"));
  ASSERT_TRUE(report.ok()) << report.error().text();
  EXPECT_EQ(report->node_count, 169);
}

TEST(Import, ADimensionThatJoinsAnInputToOthersMayBe0) {
  pb::ModelProto m = model();
  input(m, "past", {"n", "p", "4"});
  input(m, "x", {"n", "s", "4"});
  input(m, "other", {"n", "s", "4"});
  output(m, "y", {"n", "p + s", "4"});
  output(m, "z", {"n", "s", "4"});
  node(m, "Neg", {"x"}, {"new"});
  auto* a = attr(node(m, "Concat", {"past", "new"}, {"y"}), "axis", A::INT);
  a->set_i(1);
  node(m, "Add", {"x", "other"}, {"z"});
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(type_of(*r, "past"), "f32[n,p?,4]");
  EXPECT_EQ(type_of(*r, "y"), "f32[n,p? + s,4]");
  EXPECT_EQ(type_of(*r, "z"), "f32[n,s,4]");
  const auto bytes = std::make_shared<const std::string>(m.SerializeAsString());
  auto asked = import_bytes(*bytes, bytes, "test.onnx", "/nonexistent", {.from_zero = {"n"}});
  ASSERT_TRUE(asked.ok()) << asked.error().text();
  EXPECT_EQ(type_of(*asked, "y"), "f32[n?,p? + s,4]");
}

// As exports have it that hold a decoder's first step and the others in one model; of 8 bits too.
TEST(Import, ADimensionThatABodyJoinsMayBe0) {
  pb::ModelProto m = model();
  input(m, "c", {}, P::BOOL);
  input(m, "past", {"n", "p", "4"}, P::INT8);
  input(m, "x", {"n", "s", "4"});
  input(m, "rest", {"n", "r", "4"});
  untyped_output(m, "y");
  const float scale = 0.5F;
  initializer(m, "scale", {}, std::string(reinterpret_cast<const char*>(&scale), 4));
  node(m, "DequantizeLinear", {"past", "scale"}, {"wide"});
  auto* n = node(m, "If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto* g = attr(n, name, A::GRAPH)->mutable_g();
    if (name[0] == 't')
      attr(node(g, "Concat", {"wide", "x"}, {"joined"}), "axis", A::INT)->set_i(1);
    else
      node(g, "Identity", {"rest"}, {"joined"});
    g->add_output()->set_name("joined");
  }
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(type_of(*r, "past"), "i8[n,p?,4]");
  EXPECT_EQ(type_of(*r, "rest"), "f32[n,r,4]");
}

TEST(Import, DimensionNames) {
  pb::ModelProto m = model();
  input(m, "x", {"n", "2*n", "batch size", "sequence-length", "?", "3*k", "7", "-1"});
  untyped_output(m, "y");
  node(m, "Relu", {"x"}, {"y"});
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(type_of(*r, "y"), "f32[n,2*n,`batch size`,`sequence-length`,x_dim_4,`3*k`,7,x_dim_7]");
  std::vector<std::string> names;
  for (const Symbol& s : r->symbols) names.push_back(s.name);
  EXPECT_EQ(names.size(), 6u);
}

TEST(Import, EmptyShapeOfAnOutputIsNone) {
  pb::ModelProto m = model();
  input(m, "x", {"n", "3"});
  output(m, "y", {});
  node(m, "Relu", {"x"}, {"y"});
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(type_of(*r, "y"), "f32[n,3]");
  ASSERT_EQ(r->report.notes.size(), 1u);
  EXPECT_NE(r->report.notes[0].find("'y'"), std::string::npos) << r->report.notes[0];
}

TEST(Import, OldInitializersThatAreInputsAreConstants) {
  pb::ModelProto m = model(9);
  m.set_ir_version(3);
  input(m, "x", {"2"});
  input(m, "w", {"2"});
  output(m, "y", {"2"});
  initializer(m, "w", {2}, std::string(8, '\0'));
  node(m, "Add", {"x", "w"}, {"y"});
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  ASSERT_EQ(r->graph.inputs.size(), 1u);
  EXPECT_TRUE(r->graph.find("w")->constant.has_value());
  EXPECT_TRUE(r->report.notes.empty());
}

TEST(Import, NodesInAnyOrder) {
  pb::ModelProto m = model();
  input(m, "x", {"2"});
  output(m, "c", {"2"});
  node(m, "Relu", {"b"}, {"c"});
  node(m, "Relu", {"x"}, {"a"});
  node(m, "Relu", {"a"}, {"b"});
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->graph.nodes[0]->out()->name, "a");
}

TEST(Import, ConstantNodes) {
  pb::ModelProto m = model();
  const auto constant = [&](const std::string& out, const char* name, A::AttributeType type) {
    untyped_output(m, out);
    return attr(node(m, "Constant", {}, {out}), name, type);
  };
  constant("f", "value_float", A::FLOAT)->set_f(1.5f);
  constant("i", "value_int", A::INT)->set_i(-7);
  constant("s", "value_string", A::STRING)->set_s("hi");
  auto* fs = constant("fs", "value_floats", A::FLOATS);
  fs->add_floats(1);
  fs->add_floats(2);
  auto* is = constant("is", "value_ints", A::INTS);
  is->add_ints(3);
  is->add_ints(-4);
  is->add_ints(5);
  constant("ss", "value_strings", A::STRINGS)->add_strings("a");
  auto* t = constant("t", "value", A::TENSOR)->mutable_t();
  t->set_data_type(P::INT32);
  t->add_dims(2);
  t->add_int32_data(8);
  t->add_int32_data(-9);
  auto* sparse = constant("sp", "sparse_value", A::SPARSE_TENSOR)->mutable_sparse_tensor();
  sparse->add_dims(2);
  sparse->add_dims(3);
  sparse->mutable_values()->set_data_type(P::FLOAT);
  sparse->mutable_values()->add_dims(2);
  sparse->mutable_values()->add_float_data(5);
  sparse->mutable_values()->add_float_data(6);
  sparse->mutable_indices()->set_data_type(P::INT64);
  sparse->mutable_indices()->add_dims(2);
  sparse->mutable_indices()->add_int64_data(1);
  sparse->mutable_indices()->add_int64_data(5);
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  const auto value = [&](const char* name) { return *r->graph.find(name)->constant; };
  EXPECT_EQ(value("f").f64(0), 1.5);
  EXPECT_EQ(value("i").i64(0), -7);
  EXPECT_EQ(value("s").string_values()[0], "hi");
  EXPECT_EQ(value("fs").f64(1), 2);
  EXPECT_EQ(value("is").i64(1), -4);
  EXPECT_EQ(value("ss").dims(), std::vector<int64_t>{1});
  EXPECT_EQ(value("t").i64(1), -9);
  EXPECT_EQ(tensor_type_text(value("sp")), "f32[2,3]");
  for (int64_t k = 0; k < 6; ++k) EXPECT_EQ(value("sp").f64(k), k == 1 ? 5 : k == 5 ? 6 : 0) << k;
}

TEST(Import, OldVersionsAreUpgraded) {
  pb::ModelProto m = model(9);
  input(m, "x", {"batch", "4"});
  output(m, "y", {"batch", "2"});
  auto* slice = node(m, "Slice", {"x"}, {"s"});
  attr(slice, "axes", A::INTS)->add_ints(1);
  attr(slice, "starts", A::INTS)->add_ints(0);
  attr(slice, "ends", A::INTS)->add_ints(2);
  auto* clip = node(m, "Clip", {"s"}, {"y"});
  attr(clip, "min", A::FLOAT)->set_f(0);
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(type_of(*r, "y"), "f32[batch,2]");
  EXPECT_TRUE(ir::verify_structure(r->graph).ok());
  for (const ir::Node* n : r->graph.nodes) EXPECT_TRUE(ops::check_node(*n).ok());
}

// double(x) = x + x; twice(x, alpha) = elu(double(double(x)), alpha)
pb::ModelProto function_model() {
  pb::ModelProto m = model();
  auto* o = m.add_opset_import();
  o->set_domain("mine");
  o->set_version(1);
  auto* twice = m.add_functions();
  twice->set_name("twice");
  twice->set_domain("mine");
  twice->add_input("x");
  twice->add_output("y");
  twice->add_attribute("alpha");
  node(twice, "double", {"x"}, {"t"})->set_domain("mine");
  node(twice, "double", {"t"}, {"u"})->set_domain("mine");
  attr(node(twice, "Elu", {"u"}, {"y"}), "alpha", A::FLOAT)->set_ref_attr_name("alpha");
  auto* f = m.add_functions();
  f->set_name("double");
  f->set_domain("mine");
  f->add_input("x");
  f->add_output("y");
  node(f, "Add", {"x", "x"}, {"y"});
  input(m, "x", {"n"});
  output(m, "y", {"n"});
  output(m, "z", {"n"});
  auto* call = node(m, "twice", {"x"}, {"y"});
  call->set_domain("mine");
  call->set_name("first");
  attr(call, "alpha", A::FLOAT)->set_f(0.25f);
  auto* second = node(m, "twice", {"y"}, {"z"});
  second->set_domain("mine");
  second->set_name("second");
  return m;
}

TEST(Import, FunctionsAreInlined) {
  auto r = load(function_model());
  ASSERT_TRUE(r.ok()) << r.error().text();
  std::vector<std::string> ops;
  for (const ir::Node* n : r->graph.nodes) ops.push_back(n->op);
  EXPECT_EQ(ops, (std::vector<std::string>{"add", "add", "elu", "add", "add", "elu"}));
  EXPECT_EQ(r->graph.nodes[2]->f("alpha", 1.0), 0.25);
  EXPECT_FALSE(r->graph.nodes[5]->has("alpha"));  // not given: the op's own default
  EXPECT_EQ(r->graph.nodes[0]->origins, std::vector<std::string>{"first/t/y"});
  EXPECT_EQ(r->graph.outputs[0]->name, "y");
  EXPECT_EQ(r->report.node_count, 6);
  const ops::RefTensor x = ops::to_ref(Tensor::of_f32({2}, std::vector<float>{1, -1}));
  auto out = ops::run_reference(r->graph, std::span(&x, 1));
  ASSERT_TRUE(out.ok()) << out.error().text();
  EXPECT_EQ((*out)[0].f[0], 4);
  EXPECT_NEAR((*out)[0].f[1], 0.25 * (std::exp(-4) - 1), 1e-12);
}

TEST(Import, FunctionDefaultsCanBeOverridden) {
  pb::ModelProto m = function_model();
  auto* a = m.mutable_functions(0)->add_attribute_proto();
  a->set_name("alpha");
  a->set_type(A::FLOAT);
  a->set_f(3);
  m.mutable_functions(0)->clear_attribute();
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->graph.nodes[2]->f("alpha", 1.0), 0.25);
  EXPECT_EQ(r->graph.nodes[5]->f("alpha", 1.0), 3);
}

TEST(Import, AllThatIsUnsupportedIsListedAtOnce) {
  pb::ModelProto m = model();
  input(m, "x", {"n"});
  output(m, "y", {"n"});
  node(m, "ImageDecoder", {"x"}, {"q"})->set_name("match");
  node(m, "FusedThing", {"q"}, {"j"})->set_domain("com.microsoft");
  node(m, "FusedThing", {"j"}, {"k"})->set_domain("com.microsoft");
  node(m, "Relu", {"k"}, {"y"});
  auto r = load(m);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::kUnsupported);
  const std::string text = r.error().text();
  for (const char* part : {"ImageDecoder", "'match'", "com.microsoft.FusedThing", "(2 nodes", "image outside"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  EXPECT_EQ(text.find("Relu"), std::string::npos);
}

TEST(Import, ControlFlowBodiesAreSurveyed) {
  pb::ModelProto m = model();
  input(m, "c", {}, P::BOOL);
  input(m, "x", {"n"});
  untyped_output(m, "y");
  auto* n = node(m, "If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto* g = attr(n, name, A::GRAPH)->mutable_g();
    node(g, "NoSuchOp", {"x"}, {"r"});
    g->add_output()->set_name("r");
  }
  const std::string text = error(m);
  EXPECT_NE(text.find("NoSuchOp of opset 17 (2 nodes"), std::string::npos) << text;
  m.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g()->mutable_node(0)->set_input(0, "nowhere");
  EXPECT_NE(error(m).find("'nowhere' is not defined"), std::string::npos) << error(m);
}

TEST(Import, LowPrecisionStaysAsWritten) {
  for (const auto& [type, name] : {std::pair{P::FLOAT16, "f16[n]"}, std::pair{P::BFLOAT16, "bf16[n]"}}) {
    pb::ModelProto m = model();
    input(m, "x", {"n"}, type);
    output(m, "y", {"n"}, type);
    node(m, "Add", {"x", "x"}, {"y"});
    auto r = load(m);
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(type_of(*r, "y"), name);
  }
}

TEST(Import, DeclaredTypesOfOutputsMustNotContradict) {
  const auto with = [](const Dims& dims, int type) {
    pb::ModelProto m = model();
    input(m, "x", {"batch", "3"});
    output(m, "y", dims, type);
    node(m, "Relu", {"x"}, {"y"})->set_name("act");
    return error(m);
  };
  EXPECT_EQ(with({"other", "3"}, P::FLOAT), "accepted");
  EXPECT_EQ(with({"5", "?"}, P::FLOAT), "accepted");
  EXPECT_EQ(with({"batch", "4"}, P::FLOAT), "accepted");
  EXPECT_EQ(with({"batch"}, P::FLOAT), "accepted");
  EXPECT_NE(with({"batch", "3"}, P::INT32).find("element type"), std::string::npos);
}

TEST(Import, OpsetRange) {
  for (const auto& [opset, good] : {std::pair{1, true}, {6, true}, {28, true}, {29, false}, {0, false}}) {
    pb::ModelProto m = relu_model();
    m.mutable_opset_import(0)->set_version(opset);
    const std::string text = error(m);
    EXPECT_EQ(text == "accepted", good) << opset << ": " << text;
    if (!good) EXPECT_NE(text.find("onnx.version_converter"), std::string::npos) << text;
  }
  pb::ModelProto m = model(13);
  input(m, "x", {"n"});
  untyped_output(m, "y");
  node(m, "Gelu", {"x"}, {"y"});  // since opset 20
  EXPECT_NE(error(m).find("Gelu of opset 13"), std::string::npos) << error(m);
}

TEST(Import, OptionalOutputsAndInputsMayBeLeftOut) {
  pb::ModelProto m = model();
  input(m, "x", {"n", "4"});
  output(m, "i", {"n", "2"}, P::INT64);
  initializer(m, "k", {1}, std::string("\2\0\0\0\0\0\0\0", 8), P::INT64);
  node(m, "TopK", {"x", "k"}, {"", "i"});
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  ASSERT_EQ(r->graph.nodes[0]->outputs.size(), 2u);
  pb::ModelProto c = model();
  input(c, "x", {"n"});
  output(c, "y", {"n"});
  initializer(c, "hi", {}, std::string(4, '\0'));
  node(c, "Clip", {"x", "", "hi"}, {"y"});
  auto clip = load(c);
  ASSERT_TRUE(clip.ok()) << clip.error().text();
  EXPECT_EQ(clip->graph.nodes[0]->in(1), nullptr);
}

}  // namespace
}  // namespace peri::onnx::tests
