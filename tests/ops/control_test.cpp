// Types and answers of ops that run bodies: sizes that change from iteration to iteration, names inside and outside,
// branches that are not taken, and what is refused.
#include <gtest/gtest.h>

#include "ir/bodies.hpp"
#include "ops/entry.hpp"

namespace peri::ops {
namespace {

std::string loop_of(std::string_view inputs, std::string_view call, std::string_view body) {
  return "graph { " + std::string(inputs) + " y = loop(" + std::string(call) + ", body=graph { input i: i64[]; input " +
         "g: bool[]; " + std::string(body) + " }}; output y }";
}

Result<ir::Graph> inferred(const std::string& text) {
  PERI_ASSIGN(ir::Graph g, ir::parse_graph(text));
  PERI_TRY(infer_graph(g));
  return g;
}

std::string refusal(const std::string& text) {
  auto g = inferred(text);
  EXPECT_FALSE(g.ok()) << text;
  return g.ok() ? "" : g.error().text();
}

const ir::Graph& body_of(const ir::Graph& g) { return *ir::bodies_of(*g.nodes.back())[0].second; }

TEST(Loop, ASizeThatStaysKeepsItsName) {
  auto g = inferred(loop_of("input t: i64[]; input x: f32[n,2];", "t, _, x) {carried=1",
                            "input v: f32[n,2]; w = add(v, v); output g; output w"));
  ASSERT_TRUE(g.ok()) << g.error().text();
  EXPECT_EQ(ir::type_text(g->outputs[0]->type), "f32[n,2]");
}

TEST(Loop, SizesThatChangeAreNewAndEqualOnesStayEqual) {
  const std::string text =
      "graph { input t: i64[]; input x: f32[1,n]; input z: f32[1,n]; y, u = loop(t, _, x, z) {carried=2, body=graph { "
      "input i: i64[]; input g: bool[]; input v: f32[1,n]; input r: f32[1,n]; s = add(v, r); a = concat(s, v) "
      "{axis=0}; b = concat(r, s) {axis=0}; output g; output a; output b }}; k = add(y, u); output k }";
  auto g = inferred(text);
  ASSERT_TRUE(g.ok()) << g.error().text();
  const Shape& s = *g->outputs[0]->type.shape;
  EXPECT_TRUE(s[0].is_symbol() && s[0].symbol_name().starts_with(kDataDim)) << shape_text(s);
  EXPECT_EQ(s[1].text(), "n");
  const ir::Graph& body = *ir::bodies_of(*g->nodes[0])[0].second;
  EXPECT_EQ(body.inputs[2]->type, body.inputs[3]->type);
  // Once more, from what was found: nothing changes.
  ir::Graph again = g->clone();
  ASSERT_TRUE(infer_graph(again).ok());
  EXPECT_TRUE(ir::equal(*g, again)) << ir::print(again);
}

TEST(Loop, SizesThatPartAreToldApart) {
  auto g = inferred(
      "graph { input t: i64[]; input x: f32[2]; input z: f32[2]; y, u = loop(t, _, x, z) {carried=2, body=graph { "
      "input i: i64[]; input g: bool[]; input v: f32[2]; input r: f32[2]; a = concat(v, v) {axis=0}; b = concat(r, r, "
      "r) {axis=0}; output g; output a; output b }}; output y; output u }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  EXPECT_FALSE(*g->outputs[0]->type.shape == *g->outputs[1]->type.shape);
}

TEST(Loop, TakesExpressionsOfOutsideByNamesOfItsOwn) {
  auto g = inferred(
      "graph { input t: i64[]; input a: f32[n]; input b: f32[m]; x = concat(a, b) {axis=0}; y = loop(t, "
      "_, x) {carried=1, body=graph { input i: i64[]; input g: bool[]; input v: f32[4]; w = neg(v); "
      "output g; output w }}; output y }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  EXPECT_EQ(ir::type_text(g->outputs[0]->type), "f32[m + n]");
  EXPECT_EQ(ir::type_text(body_of(*g).inputs[2]->type), "f32[size_0]");
}

TEST(Loop, StacksAsOftenAsItsTripCountSays) {
  auto g = inferred(loop_of("input x: f32[n,3]; s = shape(x) {start=0, end=1};", "s, _, x) {axes=[1]",
                            "input v: f32[n,3]; output g; output v"));
  ASSERT_TRUE(g.ok()) << g.error().text();
  EXPECT_EQ(ir::type_text(g->outputs[0]->type), "f32[n,n,3]");
  auto may_end = inferred(loop_of("input x: f32[2]; const t: i64[] = [3];", "t, _, x) {axes=[0]",
                                  "input v: f32[2]; const z: f32[] = [0.0]; const f: i64[1] = [0]; m = reduce_max(v, "
                                  "f) {keepdims=0}; more = less(m, z); output more; output v"));
  ASSERT_TRUE(may_end.ok()) << may_end.error().text();
  EXPECT_FALSE(is_const(*may_end->outputs[0]->type.shape));
}

TEST(Loop, RefusesOtherTypesRanksAndAxes) {
  const std::string in = "input t: i64[]; input x: f32[2];";
  EXPECT_NE(refusal(loop_of(in, "t, _, x) {carried=1",
                            "input v: f32[2]; const a: i64[1] = [0]; w = unsqueeze(v, a); output g; output w"))
                .find("'v' changes its rank"),
            std::string::npos);
  EXPECT_NE(refusal(loop_of(in, "t, _, x) {carried=1", "input v: f32[2]; w = cast(v) {to=11}; output g; output w"))
                .find("'v' changes its element type"),
            std::string::npos);
  EXPECT_NE(refusal(loop_of(in, "t, _, x) {axes=[3]", "input v: f32[2]; output g; output v")).find("along axis 3"),
            std::string::npos);
  EXPECT_NE(refusal(loop_of(in, "t, _, x) {carried=1", "input v: f32[2]; output v; output v")).find("condition"),
            std::string::npos);
  EXPECT_NE(refusal(loop_of(in, "t, _, x) {carried=5", "input v: f32[2]; output g; output v")).find("carries 5"),
            std::string::npos);
  EXPECT_NE(refusal(loop_of(in, "t, _, x) {carried=1", "output g; output i")).find("the body of a loop has"),
            std::string::npos);
}

TEST(Loop, WithoutEndStopsAtItsLimit) {
  auto g =
      inferred(loop_of("input x: i64[];", "_, _, x) {carried=1", "input v: i64[]; w = add(v, i); output g; output w"));
  ASSERT_TRUE(g.ok()) << g.error().text();
  RefTensor x = make_ref(DType::kI64, {});
  RefOptions options;
  options.most_iterations = 50;
  auto out = run_reference(*g, {&x, 1}, options);
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().text().find("did not end"), std::string::npos) << out.error().text();
  EXPECT_NE(out.error().text().find("--max-iterations"), std::string::npos);
}

TEST(Loop, WhatItKeepsIsBounded) {
  auto g = inferred(loop_of("input x: f32[100];", "_, _, x) {axes=[0]", "input v: f32[100]; output g; output v"));
  ASSERT_TRUE(g.ok()) << g.error().text();
  const RefTensor x = make_ref(DType::kF32, {100});
  RefOptions options;
  options.most_elements = 1000;
  auto out = run_reference(*g, {&x, 1}, options);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::kMemory) << out.error().text();
}

TEST(Loop, WhatItCarriesIsBounded) {
  auto g = inferred(loop_of("input t: i64[]; input x: f32[n];", "t, _, x) {carried=1",
                            "input v: f32[m]; w = concat(v, v) {axis=0}; output g; output w"));
  ASSERT_TRUE(g.ok()) << g.error().text();
  RefOptions options;
  options.most_elements = 1000;
  const auto after = [&](int64_t trips) {
    std::vector<RefTensor> in = {make_ref(DType::kI64, {}), make_ref(DType::kF32, {4})};
    in[0].i[0] = trips;
    return run_reference(*g, in, options);
  };
  auto out = after(INT64_MAX);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::kMemory) << out.error().text();
  EXPECT_NE(out.error().text().find("the carried values of a loop grow"), std::string::npos) << out.error().text();
  EXPECT_TRUE(after(5).ok());
}

std::string if_of(std::string_view condition, std::string_view yes, std::string_view no) {
  return "graph { " + std::string(condition) +
         " input x: f32[2,1]; y = if(c, x) {then_branch=graph { input a: " + "f32[2,1]; " + std::string(yes) +
         " }, else_branch=graph { input a: f32[2,1]; " + std::string(no) + " }}; output y }";
}

TEST(If, OnlyTheBranchThatIsTakenMatters) {
  const char* squeeze = "const i: i64[1] = [1]; b = squeeze(a, i); output b";
  auto g = inferred(if_of("const c: bool[] = [1];", squeeze, "output a"));
  ASSERT_TRUE(g.ok()) << g.error().text();
  EXPECT_EQ(ir::type_text(g->outputs[0]->type), "f32[2]");
  const std::string why = refusal(if_of("input c: bool[];", squeeze, "output a"));
  EXPECT_NE(why.find("different ranks"), std::string::npos) << why;
  EXPECT_NE(why.find("--fix"), std::string::npos) << why;
}

TEST(If, SizesThatDifferAreKnownWhenItRuns) {
  auto g = inferred(if_of("input c: bool[];", "b = concat(a, a) {axis=0}; output b", "output a"));
  ASSERT_TRUE(g.ok()) << g.error().text();
  const Shape& s = *g->outputs[0]->type.shape;
  EXPECT_TRUE(s[0].is_symbol() && s[1].is_const(1)) << shape_text(s);
  RefTensor c = make_ref(DType::kBool, {});
  const RefTensor x = make_ref(DType::kF32, {2, 1});
  for (const int64_t taken : {0, 1}) {
    c.i[0] = taken;
    const std::vector<RefTensor> in = {c, x};
    auto out = run_reference(*g, in);
    ASSERT_TRUE(out.ok()) << out.error().text();
    EXPECT_EQ((*out)[0].dims[0], taken ? 4 : 2);
  }
}

TEST(If, RefusesBranchesOfOtherTypesAndConditionsOfManyElements) {
  EXPECT_NE(refusal(if_of("input c: bool[];", "b = cast(a) {to=11}; output b", "output a")).find("element types"),
            std::string::npos);
  EXPECT_NE(refusal(if_of("input c: bool[2];", "output a", "output a")).find("not one element"), std::string::npos);
}

}  // namespace
}  // namespace peri::ops
