// If, Loop and Scan as they are read: what a body takes from around it, branches that are folded, inputs that are
// fixed, and what is refused.
#include <gtest/gtest.h>

#include "ir/bodies.hpp"
#include "tests/onnx/models.hpp"

namespace peri::onnx {
namespace {

namespace pb = tests::pb;
using A = pb::AttributeProto;
using P = pb::TensorProto;

Result<ImportedModel> load(const pb::ModelProto& m, std::map<std::string, std::string> fixed = {}) {
  auto bytes = std::make_shared<const std::string>(m.SerializeAsString());
  ImportOptions options;
  options.fixed = std::move(fixed);
  return import_bytes(*bytes, bytes, "model.onnx", "", options);
}

pb::GraphProto* body(pb::NodeProto* n, const std::string& name) { return tests::attr(n, name, A::GRAPH)->mutable_g(); }

// x[n,1] at a rate of 16000: x without its last axis; at others, or where nothing is known, x.
pb::ModelProto by_rate(bool same_rank) {
  pb::ModelProto m = tests::model();
  tests::input(m, "x", {"n", "1"});
  tests::input(m, "sr", {}, P::INT64);
  tests::untyped_output(m, "y");
  const int64_t rate = 16000, axis = 1;
  tests::initializer(m, "rate", {}, std::string(reinterpret_cast<const char*>(&rate), 8), P::INT64);
  tests::initializer(m, "axis", {1}, std::string(reinterpret_cast<const char*>(&axis), 8), P::INT64);
  tests::node(m, "Equal", {"sr", "rate"}, {"is16"});
  auto* n = tests::node(m, "If", {"is16"}, {"y"});
  n->set_name("choice");
  auto* yes = body(n, "then_branch");
  same_rank ? tests::node(yes, "Relu", {"x"}, {"a"}) : tests::node(yes, "Squeeze", {"x", "axis"}, {"a"});
  yes->add_output()->set_name("a");
  auto* no = body(n, "else_branch");
  tests::node(no, "Neg", {"x"}, {"b"});
  no->add_output()->set_name("b");
  return m;
}

TEST(Control, WhatABodyTakesIsAnArgumentAndConstantsAreItsOwn) {
  auto r = load(by_rate(true));
  ASSERT_TRUE(r.ok()) << r.error().text();
  const ir::Node& n = *r->graph.nodes.back();
  ASSERT_EQ(n.op, "if");
  ASSERT_EQ(n.inputs.size(), 2u);
  EXPECT_EQ(n.in(1)->name, "x");
  for (const auto& [key, g] : ir::bodies_of(n)) {
    ASSERT_EQ(g->inputs.size(), 1u);
    EXPECT_EQ(ir::type_text(g->inputs[0]->type), "f32[n,1]");
    EXPECT_FALSE(g->nodes[0]->has(std::string("onnx.opset")));
  }
}

TEST(Control, AFixedInputFoldsWhatHangsOnIt) {
  auto yes = load(by_rate(false), {{"sr", "16000"}});
  ASSERT_TRUE(yes.ok()) << yes.error().text();
  EXPECT_EQ(yes->graph.inputs.size(), 1u);
  EXPECT_EQ(ir::type_text(yes->graph.outputs[0]->type), "f32[n]");
  auto no = load(by_rate(false), {{"sr", "8000"}});
  ASSERT_TRUE(no.ok()) << no.error().text();
  EXPECT_EQ(ir::type_text(no->graph.outputs[0]->type), "f32[n,1]");
  for (const auto* r : {&yes, &no})
    for (const ir::Node* n : (*r)->graph.nodes) EXPECT_FALSE(ir::has_bodies(*n));
}

TEST(Control, BranchesOfOtherRanksAreRefusedByName) {
  auto r = load(by_rate(false));
  ASSERT_FALSE(r.ok());
  const std::string text = r.error().text();
  for (const char* part : {"'choice'", "different ranks", "f32[n]", "f32[n,1]", "--fix"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST(Control, FixesThatDoNotFitAreRefused) {
  const struct {
    const char *name, *value, *why;
  } rows[] = {{"rates", "1", "not an input of the model"},
              {"sr", "fast", "does not fit"},
              {"sr", "1.5", "does not fit"},
              {"sr", "1,2", "one value"},
              {"x", "0", "its shape is not"}};
  for (const auto& row : rows) {
    auto r = load(by_rate(true), {{row.name, row.value}});
    ASSERT_FALSE(r.ok()) << row.name;
    EXPECT_EQ(r.error().kind, ErrorKind::kUsage);
    EXPECT_NE(r.error().text().find(row.why), std::string::npos) << r.error().text();
  }
}

TEST(Control, ALoopWhoseBodyDoesNotFitIsRefusedByName) {
  pb::ModelProto m = tests::model();
  tests::input(m, "x", {"2"});
  tests::untyped_output(m, "y");
  auto* n = tests::node(m, "Loop", {"", "", "x"}, {"y"});
  n->set_name("again");
  auto* g = body(n, "body");
  for (const char* name : {"i", "go"}) tests::set_type(g->add_input(), name, P::INT64, {});
  g->add_output()->set_name("go");
  auto r = load(m);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().text().find("'again'"), std::string::npos) << r.error().text();
  EXPECT_NE(r.error().text().find("body of a Loop"), std::string::npos) << r.error().text();
}

// Results of a body are known by their places: one value may be two of them.
TEST(Control, OneValueMayBeTwoResultsOfABody) {
  pb::ModelProto m = tests::model();
  tests::input(m, "c", {}, P::BOOL);
  tests::input(m, "x", {"2"});
  for (const char* name : {"p", "q"}) tests::untyped_output(m, name);
  auto* n = tests::node(m, "If", {"c"}, {"p", "q"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* g = body(n, branch);
    tests::node(g, branch[0] == 't' ? "Relu" : "Neg", {"x"}, {"a"});
    for (int k = 0; k < 2; ++k) g->add_output()->set_name("a");
  }
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_TRUE(ir::verify_structure(r->graph).ok());
  for (const auto& [key, g] : ir::bodies_of(*r->graph.nodes.back())) {
    EXPECT_EQ(g->outputs[0], g->outputs[1]);
    EXPECT_EQ(g->output_names, (std::vector<std::string>{"a", "a.1"}));
    EXPECT_TRUE(ir::verify_structure(*g).ok());
  }
}

// The loop that a Scan becomes has a result of its own, its condition.
TEST(Control, AResultOfAScanMayBeCalledAsTheConditionOfALoop) {
  pb::ModelProto m = tests::model();
  tests::input(m, "s", {"2"});
  tests::input(m, "x", {"t", "2"});
  tests::untyped_output(m, "y");
  auto* n = tests::node(m, "Scan", {"s", "x"}, {"y"});
  tests::attr(n, "num_scan_inputs", A::INT)->set_i(1);
  auto* g = body(n, "body");
  for (const char* name : {"a", "e"}) tests::set_type(g->add_input(), name, P::FLOAT, {"2"});
  tests::node(g, "Add", {"a", "e"}, {"condition"});
  g->add_output()->set_name("condition");
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  for (const auto& [key, loop] : ir::bodies_of(*r->graph.nodes.back())) {
    EXPECT_EQ(loop->output_names, (std::vector<std::string>{"condition", "condition.1"}));
    EXPECT_TRUE(loop->outputs[0]->constant);
  }
}

TEST(Control, SequenceLengthsOfAScanAreRefused) {
  pb::ModelProto m = tests::model(8);
  tests::input(m, "l", {"b"}, P::INT64);
  tests::input(m, "s", {"b", "2"});
  tests::input(m, "x", {"b", "t", "2"});
  tests::untyped_output(m, "y");
  auto* n = tests::node(m, "Scan", {"l", "s", "x"}, {"y"});
  tests::attr(n, "num_scan_inputs", A::INT)->set_i(1);
  auto* g = body(n, "body");
  for (const char* name : {"a", "e"}) tests::set_type(g->add_input(), name, P::FLOAT, {"2"});
  tests::node(g, "Add", {"a", "e"}, {"r"});
  g->add_output()->set_name("r");
  auto r = load(m);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(r.error().text().find("sequence lengths"), std::string::npos) << r.error().text();
}

}  // namespace
}  // namespace peri::onnx
