// Names of sizes that a node requires to be equal are one; those that a broadcast could explain, or a node that no
// result needs, stay apart.
#include "onnx/equal_sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/onnx/models.hpp"

namespace peri::onnx::tests {
namespace {

ImportedModel imported(const pb::ModelProto& m, const ImportOptions& options = {}) {
  auto keep = std::make_shared<const std::string>(m.SerializeAsString());
  auto out = import_bytes(*keep, keep, "test.onnx", ".", options);
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().text());
  return out.ok() ? std::move(out).value() : ImportedModel{};
}

std::string inputs_of(const ImportedModel& m) {
  std::string out;
  for (const ir::Value* v : m.graph.inputs) out += (out.empty() ? "" : " ") + shape_text(*v->type.shape);
  return out;
}

void set_int(pb::NodeProto* n, const char* name, int64_t value) {
  auto* a = n->add_attribute();
  a->set_name(name);
  a->set_type(pb::AttributeProto::INT);
  a->set_i(value);
}

// y = op(a, b) of these shapes.
pb::ModelProto two(const std::string& op, const Dims& a, const Dims& b, int64_t axis = -1) {
  pb::ModelProto m = model();
  input(m, "a", a);
  input(m, "b", b);
  untyped_output(m, "y");
  auto* n = node(m, op, {"a", "b"}, {"y"});
  n->set_name("it");
  if (axis >= 0) set_int(n, "axis", axis);
  return m;
}

TEST(EqualSizes, AConcatJoinsNamesOffItsAxis) {
  EXPECT_EQ(inputs_of(imported(two("Concat", {"n", "p"}, {"m", "q"}, 1))), "[n,p?] [n,q?]");
  EXPECT_EQ(inputs_of(imported(two("Concat", {"n", "p"}, {"m", "q"}, 0))), "[n?,p] [m?,p]")
      << "only names off the axis are one";
}

TEST(EqualSizes, ANameOfTheModelStays) {
  const ImportedModel m = imported(two("Concat", {"?", "1"}, {"rows", "1"}, 1));
  EXPECT_EQ(inputs_of(m), "[rows,1] [rows,1]");
  ASSERT_EQ(m.same.size(), 1u);
  EXPECT_EQ(m.same.begin()->first, "a_dim_0");
  EXPECT_EQ(same_notes(m.same), std::vector<std::string>{"'a_dim_0' is the dimension 'rows', as node 'it' requires"});
  EXPECT_EQ(std::count(m.report.notes.begin(), m.report.notes.end(), same_notes(m.same)[0]), 1);
}

TEST(EqualSizes, TheSumOfAProduct) {
  EXPECT_EQ(inputs_of(imported(two("MatMul", {"n", "k"}, {"l", "m"}))), "[n,k] [k,m]");
  EXPECT_EQ(inputs_of(imported(two("MatMul", {"b", "n", "k"}, {"c", "l", "m"}))), "[b,n,k] [c,k,m]");
  pb::ModelProto m = two("Gemm", {"k", "n"}, {"m", "l"});
  set_int(m.mutable_graph()->mutable_node(0), "transA", 1);
  set_int(m.mutable_graph()->mutable_node(0), "transB", 1);
  EXPECT_EQ(inputs_of(imported(m)), "[k,n] [m,k]");
}

TEST(EqualSizes, ABroadcastThatOneOfThemMayExplainJoinsNothing) {
  EXPECT_EQ(inputs_of(imported(two("Add", {"n", "4"}, {"m", "4"}))), "[n,4] [m,4]");
  EXPECT_EQ(inputs_of(imported(two("Add", {"n", "k"}, {"m"}))), "[n,k] [m]");
}

// Sizes of at least 2: both are those of two values side by side.
TEST(EqualSizes, ABroadcastThatNothingExplainsJoins) {
  pb::ModelProto m = model();
  input(m, "a", {"n", "4"});
  input(m, "b", {"m", "4"});
  untyped_output(m, "y");
  set_int(node(m, "Concat", {"a", "a"}, {"aa"}), "axis", 0);
  set_int(node(m, "Concat", {"b", "b"}, {"bb"}), "axis", 0);
  node(m, "Add", {"aa", "bb"}, {"y"});
  EXPECT_EQ(inputs_of(imported(m)), "[n?,4] [n?,4]");
}

// Else a reshape to the smaller would leave elements out.
TEST(EqualSizes, AReshapeToTheSizesOfAnotherInputJoins) {
  const auto reshaped = [](const Dims& a, const Dims& b, int64_t keeps) {
    pb::ModelProto m = model();
    input(m, "a", a);
    input(m, "b", b);
    untyped_output(m, "y");
    if (keeps) {
      node(m, "Shape", {"b"}, {"s"});
    } else {  // one size follows from the number of elements
      set_int(node(m, "Shape", {"b"}, {"first"}), "end", 1);
      initializer(m, "rest", {1}, std::string(8, '\xff'), pb::TensorProto::INT64);
      set_int(node(m, "Concat", {"first", "rest"}, {"s"}), "axis", 0);
    }
    node(m, "Reshape", {"a", "s"}, {"y"});
    return inputs_of(imported(m));
  };
  EXPECT_EQ(reshaped({"n"}, {"m"}, 1), "[n] [n]");
  EXPECT_EQ(reshaped({"n", "6"}, {"m", "2", "3"}, 1), "[n,6] [n,2,3]");
  EXPECT_EQ(reshaped({"n", "6"}, {"m", "2"}, 1), "[n,6] [m,2]") << "one is three of the other";
  EXPECT_EQ(reshaped({"n", "k"}, {"m", "2"}, 1), "[n,k] [m,2]");
  EXPECT_EQ(reshaped({"n", "6"}, {"m", "2"}, 0), "[n,6] [m,2]");
}

TEST(EqualSizes, ANodeThatNoResultNeedsJoinsNothing) {
  pb::ModelProto m = two("Add", {"n", "4"}, {"m", "4"});
  set_int(node(m, "Concat", {"a", "b"}, {"unused"}), "axis", 1);
  EXPECT_EQ(inputs_of(imported(m)), "[n,4] [m,4]");
}

// b is one with a only through c.
TEST(EqualSizes, WhatIsJoinedIsOneThroughout) {
  pb::ModelProto m = model();
  for (const char* name : {"a", "b", "c"}) input(m, name, {"?", "1"});
  output(m, "y", {"?", "3"});
  set_int(node(m, "Concat", {"b", "c"}, {"bc"}), "axis", 1);
  set_int(node(m, "Concat", {"bc", "a"}, {"y"}), "axis", 1);
  const ImportedModel got = imported(m);
  EXPECT_EQ(inputs_of(got), "[a_dim_0,1] [a_dim_0,1] [a_dim_0,1]");
  EXPECT_EQ(got.symbols.size(), 1u);
  EXPECT_EQ(inputs_of(imported(m, {.from_zero = {"c_dim_0"}})), "[a_dim_0?,1] [a_dim_0?,1] [a_dim_0?,1]");
  EXPECT_EQ(inputs_of(imported(m, {.sizes = {{"a_dim_0", 4}}})), "[4,1] [b_dim_0,1] [b_dim_0,1]");
}

TEST(EqualSizes, NamesFoundLaterReplaceThoseThatStayed) {
  const SameSizes out = merged({{"c", {"b", "x"}}}, {{"b", {"a", "y"}}});
  EXPECT_EQ(out.at("c").name, "a");
  EXPECT_EQ(out.at("b").name, "a");
  EXPECT_EQ(same_notes(out), std::vector<std::string>{"'b' and 'c' are the dimension 'a', as node 'y' requires"});
}

}  // namespace
}  // namespace peri::onnx::tests
