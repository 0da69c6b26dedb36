// At sizes at which values have no elements, what is left of a region is what the definition says of it, and what
// reads such values in another way than to join them is left to the definition.
#include "exec/region/emptied.hpp"

#include <gtest/gtest.h>

#include "exec/region/region_payload.hpp"
#include "ops/entry.hpp"

namespace peri::exec {
namespace {

struct Bound {
  ir::Graph region, concrete;
};
Bound bound(const std::string& text, const DimBinding& sizes) {
  Bound out{ir::parse_graph("graph { " + text + " }").value(), {}};
  EXPECT_TRUE(ops::infer_graph(out.region).ok()) << text;
  out.concrete = bind_region(out.region, sizes).value();
  return out;
}

// The rest computes what the whole does from the inputs that it keeps, result by result.
void expect_same(const Bound& b, const Rest& rest) {
  std::vector<ops::RefTensor> all, some;
  for (const ir::Value* v : b.concrete.inputs) {
    all.push_back(ops::make_ref(v->type.dtype, eval(*v->type.shape, {}).value()));
    for (size_t k = 0; k < all.back().f.size(); ++k) all.back().f[k] = static_cast<double>(k % 7) - 3;
  }
  for (const size_t k : rest.inputs) some.push_back(all[k]);
  const auto whole = ops::run_reference(b.concrete, all, {}), part = ops::run_reference(rest.graph, some, {});
  ASSERT_TRUE(whole.ok() && part.ok()) << (part.ok() ? "" : part.error().text());
  ASSERT_EQ(part->size(), rest.outputs.size());
  for (size_t k = 0; k < part->size(); ++k) {
    EXPECT_EQ((*part)[k].dims, (*whole)[rest.outputs[k]].dims);
    EXPECT_EQ((*part)[k].f, (*whole)[rest.outputs[k]].f);
  }
}

TEST(Emptied, AJoinWithoutAPastIsWhatIsNew) {
  const Bound b = bound(
      "input past: f32[2,p?,3]; input x: f32[2,s,3]; input w: f32[3,4]; a = concat(past, x) {axis=1}; m = matmul(a, "
      "w); "
      "y = relu(m); output y; output a",
      {{"p", 0}, {"s", 5}});
  ASSERT_TRUE(any_emptied(b.region, b.concrete));
  const auto rest = without_emptied(b.region, b.concrete);
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->inputs, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(rest->outputs, (std::vector<size_t>{0, 1}));
  expect_same(b, *rest);
}

TEST(Emptied, OneOfSeveralIsLeftOut) {
  const Bound b = bound(
      "input a: f32[2,n?]; input b: f32[2,3]; input c: f32[2,n?]; input d: f32[2,1]; r = relu(a); y = concat(r, b, c, "
      "d) "
      "{axis=1}; output y",
      {{"n", 0}});
  const auto rest = without_emptied(b.region, b.concrete);
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->inputs, (std::vector<size_t>{1, 3}));
  expect_same(b, *rest);
}

TEST(Emptied, ResultsWithoutElementsAreLeftOut) {
  const Bound b = bound("input x: f32[n?,3]; input z: f32[4]; y = relu(x); w = neg(z); output y; output w", {{"n", 0}});
  const auto rest = without_emptied(b.region, b.concrete);
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->outputs, (std::vector<size_t>{1}));
  expect_same(b, *rest);
  const Bound nothing = bound("input x: f32[n?,3]; y = relu(x); output y", {{"n", 0}});
  const auto none = without_emptied(nothing.region, nothing.concrete);
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->graph.outputs.empty());
}

TEST(Emptied, OtherReadersAreLeftToTheDefinition) {
  for (const char* text : {"input x: f32[n?,3]; const a: i64[1] = [0]; y = reduce_sum(x, a); output y",
                           "input x: f32[4,n?]; input w: f32[n?,5]; y = matmul(x, w); output y"}) {
    const Bound b = bound(text, {{"n", 0}});
    EXPECT_TRUE(any_emptied(b.region, b.concrete)) << text;
    EXPECT_FALSE(without_emptied(b.region, b.concrete).has_value()) << text;
  }
}

TEST(Emptied, WhatIsEmptyAtEverySizeIsNotEmptied) {
  const Bound b = bound(
      "input x: f32[n?,3]; const a: i64[0] = []; y = reduce_sum(x, a) {noop_with_empty_axes=1}; output y", {{"n", 2}});
  EXPECT_FALSE(any_emptied(b.region, b.concrete));
}

}  // namespace
}  // namespace peri::exec
