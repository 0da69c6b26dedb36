// The kernel names the index that the reference names: along every axis, for both ends, first and last of equals, with
// NaN and infinities, lengths around the lanes; what it cannot take it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels {
namespace {

const Kernel& kernel() { return *find("arg_max_f32"); }

ir::Graph graph_of(const std::string& op, const std::string& shape, const std::string& attrs) {
  auto g = ir::parse_graph("graph { input x: " + shape + "; y = " + op + "(x) {" + attrs + "}; output y }");
  EXPECT_TRUE(g.ok());
  EXPECT_TRUE(ops::infer_graph(*g).ok());
  return std::move(g).value();
}

// Few different values, so that many are equal; some that compare with nothing.
Tensor values(const std::vector<int64_t>& dims, uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::zeros(DType::kF32, dims).value();
  for (int64_t k = 0; k < t.numel(); ++k) {
    const int64_t kind = rng.below(40);
    t.set_f64(k, kind == 0   ? std::numeric_limits<double>::quiet_NaN()
                 : kind == 1 ? -std::numeric_limits<double>::infinity()
                 : kind == 2 ? -0.0
                             : static_cast<double>(rng.below(7)) - 3);
  }
  return t;
}

void check(const std::string& op, const std::vector<int64_t>& dims, int64_t axis, bool last, uint64_t seed) {
  const ir::Graph g = graph_of(op, "f32" + shape_text(Shape(dims.begin(), dims.end())),
                               "axis=" + std::to_string(axis) + ", select_last_index=" + std::to_string(last));
  SCOPED_TRACE(ir::print(g) + " seed=" + std::to_string(seed));
  const Tensor x = values(dims, seed);
  const std::vector<ops::RefTensor> in = {ops::to_ref(x)};
  const auto want = ops::run_reference(g, in);
  ASSERT_TRUE(want.ok());
  const Problem problem{&g, {false}};
  const std::vector<Tensor> constants(1);
  auto instance = kernel().instantiate(problem, "", {constants, nullptr, nullptr});
  ASSERT_TRUE(instance.ok()) << instance.error().text();
  std::vector<int64_t> got((*want)[0].i.size() + 1, -7);
  const void* reads[] = {x.data()};
  void* writes[] = {got.data()};
  for (int64_t t = (*instance)->tasks(0); t-- > 0;) (*instance)->run_task(0, t, {reads, writes, nullptr, nullptr});
  EXPECT_EQ(got.back(), -7) << "nothing is written behind the end";
  got.pop_back();
  EXPECT_EQ(got, (*want)[0].i);
}

TEST(ArgMax, NamesTheIndexThatTheReferenceNames) {
  uint64_t seed = 1;
  for (const char* op : {"arg_max", "arg_min"})
    for (const bool last : {false, true})
      for (const auto& dims : std::vector<std::vector<int64_t>>{
               {1}, {2, 15}, {3, 16}, {3, 17}, {40, 33}, {19, 128}, {19, 129}, {2, 5, 300}, {3, 7, 1}, {70000}})
        for (int64_t axis = -1; axis < static_cast<int64_t>(dims.size()); ++axis) check(op, dims, axis, last, seed++);
}

TEST(ArgMax, WhatItCannotTakeIsRefused) {
  const auto offers = [](const ir::Graph& g) { return kernel().offer({&g, {false}}, Target{}); };
  EXPECT_TRUE(offers(graph_of("arg_max", "f32[3,4]", "axis=1")).ok());
  for (const char* shape : {"i32[3,4]", "f16[3,4]", "f32[0,4]"}) {
    const auto made = offers(graph_of("arg_max", shape, "axis=1"));
    ASSERT_FALSE(made.ok()) << shape;
    EXPECT_EQ(made.error().kind, ErrorKind::kRefused);
  }
  EXPECT_FALSE(offers(graph_of("relu", "f32[3]", "")).ok());
}

}  // namespace
}  // namespace peri::kernels
