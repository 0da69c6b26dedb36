// Ops that select by the data: their own code against the definitions, on samples, seeded values and every type, with
// tasks in either order.
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.hpp"
#include "base/thread_pool.hpp"
#include "exec/sized/kept_boxes.hpp"
#include "exec/sized/selection.hpp"
#include "ops/entry.hpp"

namespace peri::exec {
namespace {

struct Kept : runtime::RunContext::Binder {
  std::vector<std::vector<int64_t>> dims;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<DType> types;
  Result<void*> bind_output(size_t k, std::span<const int64_t> d) override {
    int64_t n = 1;
    for (const int64_t v : d) n *= v;
    dims[k].assign(d.begin(), d.end());
    bytes[k].assign(static_cast<size_t>(n * dtype_bits(types[k]) / 8) + 1, std::byte{0x5a});
    return static_cast<void*>(bytes[k].data());
  }
};

// Few values, so that they are often equal, zero, negative zero, infinite or no number.
Tensor few_values(const ir::Type& type, Rng* rng) {
  Tensor t = Tensor::zeros(type.dtype, *eval(*type.shape, {})).value();
  constexpr double kValues[] = {0, -0.0, 1, -2, 0.25, 3};
  for (int64_t k = 0; k < t.numel(); ++k) {
    const double v = kValues[rng->below(6)];
    if (is_float(type.dtype))
      t.set_f64(k, rng->below(9) == 0 ? NAN : v);
    else
      t.set_i64(k, type.dtype == DType::kBool ? v > 0 : static_cast<int64_t>(std::fabs(v)));
  }
  return t;
}

void check(const std::string& text, uint64_t seed, bool backwards) {
  auto g = ir::parse_graph(text);
  ASSERT_TRUE(g.ok()) << text;
  ASSERT_TRUE(ops::infer_graph(*g).ok()) << text;
  for (ir::Value* v : g->constants()) ASSERT_TRUE(v->constant.has_value());
  const Selection run = selection_of(*g);
  ASSERT_NE(run, nullptr) << text;
  Rng rng(seed);
  std::vector<Tensor> in;
  std::vector<ops::RefTensor> exact;
  std::vector<const void*> reads;
  for (const ir::Value* v : g->inputs) in.push_back(few_values(v->type, &rng));
  for (const Tensor& t : in) {
    exact.push_back(ops::to_ref(t));
    reads.push_back(t.data());
  }
  Kept kept;
  for (const ir::Value* v : g->outputs) kept.types.push_back(v->type.dtype);
  kept.dims.resize(kept.types.size());
  kept.bytes.resize(kept.types.size());
  ThreadPool pool(2);
  runtime::RunContext context;
  context.reads = reads;
  context.pool = &pool;
  context.order.backwards = backwards;
  context.binder = &kept;
  const auto wanted = ops::run_reference(*g, exact, {0, 1, true});
  const Status done = run(call_of(*g, context));
  ASSERT_EQ(done.ok(), wanted.ok()) << text;
  if (!wanted.ok()) return;
  for (size_t k = 0; k < wanted->size(); ++k) {
    const Tensor t = ops::from_ref((*wanted)[k]);
    ASSERT_EQ(kept.dims[k], t.dims()) << text << " result " << k << " seed " << seed;
    EXPECT_EQ(std::memcmp(kept.bytes[k].data(), t.data(), t.bytes().size()), 0) << text << " result " << k;
    EXPECT_EQ(kept.bytes[k].back(), std::byte{0x5a}) << "it wrote beyond its result";
  }
}

TEST(Sized, SamplesAreAsDefined) {
  int checked = 0;
  for (const char* op : {"non_zero", "compress", "unique", "non_max_suppression", "range", "shape", "size"})
    for (const std::string_view sample : ops::find(op)->samples) {
      auto g = ir::parse_graph(sample);
      ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
      if (!selection_of(*g)) continue;
      for (uint64_t seed = 0; seed < 20; ++seed) check(std::string(sample), seed, seed % 2 == 1);
      ++checked;
    }
  EXPECT_GE(checked, 17);
}

TEST(Sized, EveryTypeAndManyTasks) {
  for (const char* t : {"f32", "f64", "f16", "bf16", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool"}) {
    const std::string x = std::string("graph { input x: ") + t;
    check(x + "[3,40,1000]; y = non_zero(x); output y }", 7, false);
    check(x + "[7,3]; input c: bool[5]; y = compress(x, c) {axis=0}; output y }", 8, true);
    check(x + "[2,5,3]; input c: bool[4]; y = compress(x, c) {axis=-2}; output y }", 9, false);
  }
  for (const char* t : {"f32", "f64", "i32", "i64"})
    for (const char* sorted : {"0", "1"})
      check(std::string("graph { input x: ") + t + "[9,7]; y, i, v, c = unique(x) {sorted=" + sorted +
                "}; output y; output i; output v; output c }",
            10, true);
  check("graph { input x: i64[50]; y, i, v, c = unique(x); output y; output v }", 11, false);
  check("graph { input x: i4[5,3]; y = shape(x) {start=-1}; output y }", 12, false);
}

TEST(Sized, BoxesOfManyClasses) {
  for (uint64_t seed = 0; seed < 10; ++seed)
    check(
        "graph { input b: f32[2,60,4]; input s: f32[2,5,60]; const m: i64[1] = [9]; const t: f32[1] = [0.4]; const c: "
        "f32[1] = [0.1]; y = non_max_suppression(b, s, m, t, c); output y }",
        seed, seed % 2 == 0);
}

// Cells of an axis against a list of all: classes apart on either axis, small objects, large ones among them, sides the
// wrong way round, coordinates that are no numbers.
TEST(Sized, KeptBoxesInCellsAnswerAsOneList) {
  int over = 0, apart = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Rng rng(seed);
    KeptBoxes cells;
    BoxList list;
    const double offset = seed % 4 == 0 ? 0 : 2, size = seed % 3 == 0 ? 0.9 : 0.02;
    for (int k = 0; k < 3000; ++k) {
      const double side = rng.below(50) == 0 ? 40 : size, moved = offset * static_cast<double>(rng.below(90));
      double v[4] = {rng.uniform(), rng.uniform(), side * rng.uniform(), side * rng.uniform()};
      v[seed % 2] += moved;
      if (seed % 5 == 0 && rng.below(40) == 0) v[rng.below(4)] = rng.below(2) == 0 ? NAN : INFINITY;
      if (seed % 5 == 1 && rng.below(40) == 0) v[2 + rng.below(2)] *= -1;
      if (seed % 5 == 2 && rng.below(300) == 0) v[rng.below(4)] = 3e38;
      const auto at = [&](int i) { return static_cast<float>(v[i]); };
      const Box b{at(0), at(1), at(0) + at(2), at(1) + at(3)};
      const bool is = list.any_over(b, 0.3F);
      ASSERT_EQ(cells.any_over(b, 0.3F), is) << "seed " << seed << " box " << k;
      ++(is ? over : apart);
      if (is) continue;
      list.add(b);
      cells.add(b);
    }
  }
  EXPECT_GT(over, 10000);
  EXPECT_GT(apart, 10000);
}

// One call for all classes, as batched suppression has it: the definition's boxes, in its order.
TEST(Sized, ManyBoxesOfOneCallAreAsDefined) {
  auto g = ir::parse_graph(
      "graph { input b: f32[1,2000,4]; input s: f32[1,1,2000]; const m: i64[1] = [2000]; const t: f32[1] = [0.5]; "
      "y = non_max_suppression(b, s, m, t); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  Rng rng(3);
  std::vector<Tensor> in;
  for (const ir::Value* v : g->inputs) in.push_back(Tensor::zeros(v->type.dtype, *eval(*v->type.shape, {})).value());
  for (int64_t k = 0; k < 2000; ++k) {
    const double x = 3.0 * static_cast<double>(k % 40) + rng.uniform(), y = rng.uniform();
    const double v[4] = {y, x, y + 0.2 * rng.uniform(), x + 0.2 * rng.uniform()};
    for (int64_t i = 0; i < 4; ++i) in[0].set_f64(4 * k + i, v[i]);
    in[1].set_f64(k, static_cast<double>(rng.below(500)) / 500);
  }
  const std::vector<ops::RefTensor> exact = {ops::to_ref(in[0]), ops::to_ref(in[1])};
  const auto wanted = ops::run_reference(*g, exact, {0, 1, true});
  ASSERT_TRUE(wanted.ok());
  Kept kept;
  kept.types = {DType::kI64};
  kept.dims.resize(1);
  kept.bytes.resize(1);
  ThreadPool pool(1);
  const std::vector<const void*> reads = {in[0].data(), in[1].data()};
  runtime::RunContext context;
  context.reads = reads;
  context.pool = &pool;
  context.binder = &kept;
  ASSERT_TRUE(selection_of(*g)(call_of(*g, context)).ok());
  const Tensor t = ops::from_ref((*wanted)[0]);
  ASSERT_EQ(kept.dims[0], t.dims());
  EXPECT_GT(t.dims()[0], 1000);
  EXPECT_EQ(std::memcmp(kept.bytes[0].data(), t.data(), t.bytes().size()), 0);
}

TEST(Sized, OthersAreLeftToTheirDefinition) {
  for (const char* text :
       {"graph { input x: f32[3,2]; y = unique(x) {axis=0}; output y }",
        "graph { input x: i4[6]; y = non_zero(x); output y }", "graph { input x: string[6]; y = size(x); output y }",
        "graph { input x: f32[3]; y = relu(x); output y }"}) {
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    EXPECT_EQ(selection_of(*g), nullptr) << text;
  }
}

}  // namespace
}  // namespace peri::exec
