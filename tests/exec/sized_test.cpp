// Ops that select by the data: their own code against the definitions, on samples, seeded values and every type, with
// tasks in either order.
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.hpp"
#include "base/thread_pool.hpp"
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
  for (const char* op : {"non_zero", "compress", "unique", "non_max_suppression", "range"})
    for (const std::string_view sample : ops::find(op)->samples) {
      auto g = ir::parse_graph(sample);
      ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
      if (!selection_of(*g)) continue;
      for (uint64_t seed = 0; seed < 20; ++seed) check(std::string(sample), seed, seed % 2 == 1);
      ++checked;
    }
  EXPECT_GE(checked, 9);
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
}

TEST(Sized, BoxesOfManyClasses) {
  for (uint64_t seed = 0; seed < 10; ++seed)
    check(
        "graph { input b: f32[2,60,4]; input s: f32[2,5,60]; const m: i64[1] = [9]; const t: f32[1] = [0.4]; const c: "
        "f32[1] = [0.1]; y = non_max_suppression(b, s, m, t, c); output y }",
        seed, seed % 2 == 0);
}

TEST(Sized, OthersAreLeftToTheirDefinition) {
  for (const char* text :
       {"graph { input x: f32[3,2]; y = unique(x) {axis=0}; output y }",
        "graph { input x: i4[6]; y = non_zero(x); output y }", "graph { input x: f32[3]; y = relu(x); output y }"}) {
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    EXPECT_EQ(selection_of(*g), nullptr) << text;
  }
}

}  // namespace
}  // namespace peri::exec
