// Sequences and optionals as they are read: none is left in a graph, and what a run decides is refused by name.
#include <gtest/gtest.h>

#include "tests/onnx/models.hpp"

namespace peri::onnx {
namespace {

namespace pb = tests::pb;
using P = pb::TensorProto;

Result<ImportedModel> load(const pb::ModelProto& m, DimBinding sizes = {}) {
  auto bytes = std::make_shared<const std::string>(m.SerializeAsString());
  ImportOptions options;
  options.sizes = std::move(sizes);
  return import_bytes(*bytes, bytes, "model.onnx", "", options);
}

void number(pb::ModelProto& m, const std::string& name, int64_t v) {
  tests::initializer(m, name, {}, std::string(reinterpret_cast<const char*>(&v), 8), P::INT64);
}

std::vector<std::string> ops_of(const ir::Graph& g) {
  std::vector<std::string> out;
  for (const ir::Node* n : g.nodes) out.push_back(n->op);
  return out;
}

// x[n,3] in one list with its double, of which element `at` is taken.
pb::ModelProto element(const std::string& at) {
  pb::ModelProto m = tests::model();
  tests::input(m, "x", {"n", "3"});
  if (at == "run") tests::input(m, "at", {}, P::INT64);
  tests::untyped_output(m, "y");
  if (at != "run") number(m, "at", std::stoll(at));
  tests::node(m, "Add", {"x", "x"}, {"twice"});
  tests::node(m, "SequenceConstruct", {"x", "twice"}, {"list"})->set_name("list");
  tests::node(m, "SequenceAt", {"list", "at"}, {"e"})->set_name("take");
  tests::node(m, "Relu", {"e"}, {"y"});
  return m;
}

TEST(Containers, AnElementIsWhatWasPutThere) {
  auto r = load(element("1"));
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(ops_of(r->graph), (std::vector<std::string>{"add", "relu"}));
  auto last = load(element("-2"));
  ASSERT_TRUE(last.ok()) << last.error().text();
  EXPECT_EQ(last->graph.outputs[0]->producer->in(0)->name, "x");
}

TEST(Containers, APlaceThatARunKnowsIsTakenFromAllOfThem) {
  auto r = load(element("run"));
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->graph.outputs[0]->producer->in(0)->producer->op, "gather");
  EXPECT_EQ(ir::type_text(r->graph.outputs[0]->type), "f32[n,3]");
}

TEST(Containers, APlaceBeyondTheListIsRefused) {
  auto r = load(element("2"));
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().node, "take");
  EXPECT_EQ(r.error().expected, "-2 to 1");
}

TEST(Containers, AListAsAResultIsOneOfEachElement) {
  pb::ModelProto m = element("0");
  m.mutable_graph()->mutable_output(0)->set_name("list");
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->graph.output_names, (std::vector<std::string>{"list.0", "list.1"}));
  EXPECT_EQ(r->graph.outputs[1]->producer->op, "add");
}

TEST(Containers, AListAsAnInputHasAsManyElementsAsAreAskedFor) {
  pb::ModelProto m = tests::model();
  auto* in = m.mutable_graph()->add_input();
  in->set_name("list");
  auto* element = in->mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type();
  element->set_elem_type(P::FLOAT);
  element->mutable_shape()->add_dim()->set_dim_param("n");
  tests::untyped_output(m, "y");
  auto* join = tests::node(m, "ConcatFromSequence", {"list"}, {"y"});
  tests::attr(join, "axis", pb::AttributeProto::INT)->set_i(0);
  auto bytes = std::make_shared<const std::string>(m.SerializeAsString());
  auto none = import_bytes(*bytes, bytes, "model.onnx", "", {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(none.error().remedy.find("--dims list=N"), std::string::npos) << none.error().remedy;
  ImportOptions options;
  options.lengths = {{"list", 3}};
  auto three = import_bytes(*bytes, bytes, "model.onnx", "", options);
  ASSERT_TRUE(three.ok()) << three.error().text();
  ASSERT_EQ(three->graph.inputs.size(), 3u);
  EXPECT_EQ(three->graph.inputs[2]->name, "list.2");
  EXPECT_EQ(ir::type_text(three->graph.outputs[0]->type), "f32[n.0? + n.1? + n.2?]");
  options.lengths = {{"list", 5000}};
  EXPECT_EQ(import_bytes(*bytes, bytes, "model.onnx", "", options).error().kind, ErrorKind::kUsage);
}

TEST(Containers, ElementsOfNoDeclaredShapeHaveTheRanksThatAreGiven) {
  pb::ModelProto m = tests::model();
  auto* in = m.mutable_graph()->add_input();
  in->set_name("list");
  in->mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(P::FLOAT);
  tests::untyped_output(m, "y");
  auto* join = tests::node(m, "ConcatFromSequence", {"list"}, {"y"});
  tests::attr(join, "axis", pb::AttributeProto::INT)->set_i(0);
  auto bytes = std::make_shared<const std::string>(m.SerializeAsString());
  ImportOptions options;
  options.lengths = {{"list", 2}};
  auto none = import_bytes(*bytes, bytes, "model.onnx", "", options);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(none.error().remedy.find("--shapes list.0:AxB"), std::string::npos) << none.error().remedy;
  options.ranks = {{"list.0", 2}, {"list.1", 2}};
  auto two = import_bytes(*bytes, bytes, "model.onnx", "", options);
  ASSERT_TRUE(two.ok()) << two.error().text();
  ASSERT_EQ(two->graph.inputs.size(), 2u);
  EXPECT_EQ(two->graph.outputs[0]->type.rank(), 2u);
}

TEST(Containers, HowManyPartsASizeMakesIsKnownOnceItIsANumber) {
  pb::ModelProto m = tests::model();
  tests::input(m, "x", {"n", "3"});
  tests::untyped_output(m, "y");
  tests::node(m, "SplitToSequence", {"x"}, {"list"});
  auto* join = tests::node(m, "ConcatFromSequence", {"list"}, {"y"});
  tests::attr(join, "axis", pb::AttributeProto::INT)->set_i(1);
  auto free = load(m);
  ASSERT_FALSE(free.ok());
  EXPECT_EQ(free.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(free.error().remedy.find("--dims"), std::string::npos);
  auto sized = load(m, {{"n", 2}});
  ASSERT_TRUE(sized.ok()) << sized.error().text();
  EXPECT_EQ(ir::type_text(sized->graph.outputs[0]->type), "f32[1,6]");
}

TEST(Containers, AnOptionalIsWhatItHoldsOrNothing) {
  pb::ModelProto m = tests::model();
  tests::input(m, "x", {"n"});
  for (const char* name : {"has", "lacks", "y"}) tests::untyped_output(m, name);
  tests::node(m, "Optional", {"x"}, {"full"});
  tests::node(m, "OptionalHasElement", {"full"}, {"has"});
  tests::node(m, "OptionalHasElement", {}, {"lacks"});
  tests::node(m, "OptionalGetElement", {"full"}, {"y"});
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->graph.outputs[0]->constant->i64(0), 1);
  EXPECT_EQ(r->graph.outputs[1]->constant->i64(0), 0);
  EXPECT_EQ(r->graph.outputs[2]->name, "x");
}

}  // namespace
}  // namespace peri::onnx
