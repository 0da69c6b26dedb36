// Inputs of a whole model lie where its ops can take them.
#include "judge/inputs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "judge/seeded.hpp"
#include "ops/entry.hpp"

namespace peri::judge {
namespace {

TEST(Inputs, RegionsOfInterestLieInTheirImages) {
  auto g = ir::parse_graph(
      "graph { input x: f32[batch,2,40,width]; input r: f32[20,5]; y = max_roi_pool(x, r) {pooled_shape=[3,4], "
      "spatial_scale=0.25}; output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  for (const int64_t batch : {1, 3})
    for (const auto how : {Integers::kIndices, Integers::kZero, Integers::kOne}) {
      const auto inputs = make_inputs(*g, {{"batch", batch}, {"width", 50}}, 7, how);
      ASSERT_TRUE(inputs.ok());
      std::vector<ops::RefTensor> in;
      for (const Tensor& t : *inputs) in.push_back(ops::to_ref(t));
      const auto out = ops::run_reference(*g, in);
      ASSERT_TRUE(out.ok()) << out.error().text();
      const auto filled = std::count_if((*out)[0].f.begin(), (*out)[0].f.end(), [](double v) { return v != 0; });
      EXPECT_GT(filled, std::ssize((*out)[0].f) / 2) << "bins that hold something";
    }
}

// A model of shifted inputs would get nothing but zeros, and a second seed would be the first again.
TEST(Inputs, NoInputIsAMovedCopyOfAnother) {
  for (const char* type : {"f32", "f64", "i64"}) {
    SCOPED_TRACE(type);
    const std::string of = std::string(type) + "[64]";
    auto g = ir::parse_graph("graph { input a: " + of + "; input b: " + of + "; input c: " + of +
                             "; x = add(a, b); y = add(x, c); output y }");
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    std::vector<Tensor> all;
    for (const uint64_t seed : {1, 2, 3}) {
      auto made = make_inputs(*g, {}, seed);
      ASSERT_TRUE(made.ok()) << made.error().text();
      all.insert(all.end(), made->begin(), made->begin() + 3);
    }
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = 0; j < all.size(); ++j)
        for (int64_t by = 0; by < 5; ++by) {
          if (i == j) continue;
          int64_t equal = 0;
          for (int64_t k = 0; k + by < 64; ++k) equal += all[i].f64(k + by) == all[j].f64(k) ? 1 : 0;
          EXPECT_LT(equal, 64 - by) << "input " << j << " is input " << i << " moved by " << by;
        }
  }
}

// What is compared on empty texts alone proves nothing about an operator of texts.
TEST(Inputs, TextsDifferAndHoldCharactersOfSeveralBytes) {
  auto g = ir::parse_graph("graph { input x: string[n]; y = identity(x); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const auto made = make_inputs(*g, {{"n", 200}}, 7);
  ASSERT_TRUE(made.ok()) << made.error().text();
  const auto seeded = random_input(plan::Port{"x", -1, DType::kString, {Dim(200)}}, {}, 7);
  ASSERT_TRUE(seeded.ok()) << seeded.error().text();
  for (const Tensor* t : {&(*made)[0], &*seeded}) {
    const std::vector<std::string>& texts = t->string_values();
    EXPECT_GT(std::set<std::string>(texts.begin(), texts.end()).size(), 50U);
    EXPECT_GT(std::count(texts.begin(), texts.end(), ""), 0);
    EXPECT_LT(std::count(texts.begin(), texts.end(), ""), 60);
    EXPECT_TRUE(std::any_of(texts.begin(), texts.end(), [](const std::string& s) {
      return std::any_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
    }));
  }
}

TEST(Inputs, TextsThatAreReadAsNumbersAreNumbers) {
  auto g = ir::parse_graph(
      "graph { input x: string[n]; input w: string[n]; m = identity(x); y = cast(m) {to=1}; "
      "output y; output w }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  ASSERT_TRUE(ops::infer_graph(*g).ok());
  const auto made = make_inputs(*g, {{"n", 200}}, 7);
  ASSERT_TRUE(made.ok()) << made.error().text();
  const auto number = [](const std::string& s) {
    return !s.empty() && s.find_first_not_of("0123456789") == std::string::npos;
  };
  const std::vector<std::string>&x = (*made)[0].string_values(), &w = (*made)[1].string_values();
  EXPECT_TRUE(std::all_of(x.begin(), x.end(), number));
  EXPECT_FALSE(std::all_of(w.begin(), w.end(), number));
}

// A number that says where a slice of a cache ends is the length of what is added to the slice's scores; so is one that
// says how many there are. What says none stays a number of its own, and a place in the cache that is computed lies in
// it.
TEST(Inputs, TellTheSizeThatAnotherInputHas) {
  auto g = ir::parse_graph(
      "graph { input cache: f32[b,16,8]; input q: f32[b,s,8]; input more: f32[b,s,8]; input bias: f32[s,t]; "
      "input total: i32[]; input count: i64[1]; input last: i32[b]; input free: i64[]; input row: f32[n]; "
      "const zero: i64[1] = [0]; const none: i64[] = [0]; const one: i64[] = [1]; const axis: i64[1] = [1]; "
      "w = cast(last) {to=14}; i = add(w, none); c = tensor_scatter(cache, more, i) {axis=1}; "
      "l = cast(total) {to=14}; e = unsqueeze(l, zero); k = slice(c, zero, e, axis); "
      "kt = transpose(k) {perm=[0,2,1]}; p = matmul(q, kt); y = add(p, bias); "
      "m = squeeze(count, zero); r = range(none, m, one); f = cast(r) {to=1}; z = mul(f, row); "
      "o = identity(free); output y; output z; output o }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  ASSERT_TRUE(ops::infer_graph(*g).ok());
  plan::Program program;
  program.sections.push_back({"source", ir::print(*g)});
  for (const ir::Value* v : g->inputs) program.inputs.push_back({v->name, -1, v->type.dtype, *v->type.shape});
  const DimBinding sizes = {{"b", 3}, {"s", 2}, {"t", 13}, {"n", 7}};
  const auto made = make_inputs(*g, sizes, 7);
  const auto seeded = random_inputs(program, sizes, 7);
  ASSERT_TRUE(made.ok()) << made.error().text();
  ASSERT_TRUE(seeded.ok()) << seeded.error().text();
  for (const std::vector<Tensor>* inputs : {&*made, &*seeded}) {
    EXPECT_EQ((*inputs)[4].i64(0), 13);
    EXPECT_EQ((*inputs)[5].i64(0), 7);
    for (int64_t k = 0; k < 3; ++k) EXPECT_LE((*inputs)[6].i64(k), 1);
    std::vector<ops::RefTensor> in;
    for (const Tensor& t : *inputs) in.push_back(ops::to_ref(t));
    const auto out = ops::run_reference(*g, in);
    ASSERT_TRUE(out.ok()) << out.error().text();
  }
}

// Columns of one input with encoders of their own, and numbers that are cast before they are looked up.
TEST(Inputs, AreCategoriesWhereAnEncoderComparesThem) {
  auto g = ir::parse_graph(
      "graph { input x: string[n,2]; input c: f32[n]; input l: string[n]; input free: string[n]; "
      "const first: i64[1] = [0]; const second: i64[1] = [1]; "
      "a = gather(x, first) {axis=1}; b = gather(x, second) {axis=1}; "
      "y = category_index(a) {categories_strings=[\"p\", \"q\"]}; z = category_index(b) {categories_strings=[\"r\"]}; "
      "i = cast(c) {to=14}; w = category_index(i) {categories_int64s=[70, -2]}; "
      "e = label_encoder(l) {keys_strings=[\"s\", \"t\"], values_int64s=[5, 6]}; "
      "output y; output z; output w; output e; output free }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  ASSERT_TRUE(ops::infer_graph(*g).ok());
  plan::Program program;
  program.sections.push_back({"source", ir::print(*g)});
  for (const ir::Value* v : g->inputs) program.inputs.push_back({v->name, -1, v->type.dtype, *v->type.shape});
  const DimBinding sizes = {{"n", 200}};
  const auto made = make_inputs(*g, sizes, 7, Integers::kOne);
  ASSERT_TRUE(made.ok()) << made.error().text();
  std::vector<Tensor> seeded;
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    auto t = random_input(program, k, sizes, 7 + k);
    ASSERT_TRUE(t.ok()) << t.error().text();
    seeded.push_back(std::move(*t));
  }
  for (const std::vector<Tensor>* inputs :
       {static_cast<const std::vector<Tensor>*>(&*made), static_cast<const std::vector<Tensor>*>(&seeded)}) {
    std::vector<ops::RefTensor> in;
    for (const Tensor& t : *inputs) in.push_back(ops::to_ref(t));
    const auto out = ops::run_reference(*g, in);
    ASSERT_TRUE(out.ok()) << out.error().text();
    const auto held = [&](size_t k, int64_t v) { return std::count((*out)[k].i.begin(), (*out)[k].i.end(), v); };
    EXPECT_GT(held(0, 0), 50);
    EXPECT_GT(held(0, 1), 50);
    EXPECT_GT(held(2, 0), 50);
    EXPECT_GT(held(3, 5) + held(3, 6), 100);
    EXPECT_GT(held(3, -1), 20) << "some are unknown to an encoder that has a default";
    const std::vector<std::string>& free = (*inputs)[3].string_values();
    EXPECT_GT(std::set<std::string>(free.begin(), free.end()).size(), 50U);
  }
}

}  // namespace
}  // namespace peri::judge
