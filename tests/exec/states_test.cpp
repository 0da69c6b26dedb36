// States follow the shape: one that grows keeps its contents, all of a run grow together or none does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/rng.hpp"
#include "runtime/session_state.hpp"
#include "tests/exec/engines.hpp"
#include "tests/plan/programs.hpp"

namespace peri::runtime {
namespace {

using peri::tests::ProgramMaker;
using plan::BufferKind;
using tests::Counted;
using tests::engine_of;
using tests::ones;

// Capacity and length are different dimensions: the one may grow while the other changes from run to run.
TEST(State, ThatGrowsKeepsItsContents) {
  ProgramMaker m;
  m.p.dims = {"length", "capacity"};
  m.input("x", DType::kF32, "[length]");
  const int32_t add = m.input("add", DType::kF32, "[2,capacity]");
  const int32_t state = m.buffer("state", BufferKind::kState, DType::kF32, "[2,capacity]");
  m.reference({state, add}, {state},
              "graph { input s: f32[2,capacity]; input a: f32[2,capacity]; y = add(s, a); output y }")
      .shares = {0};
  m.output("sum", state);
  const auto engine = engine_of(m.p);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = Session::create(*engine, 1).value();
  const auto sum = [&](int64_t length, int64_t capacity) {
    return session->run(std::vector<Tensor>{ones({length}), ones({2, capacity})}).value()[0];
  };
  const auto expect = [&](const Tensor& t, const std::vector<double>& rows) {
    ASSERT_EQ(t.numel(), static_cast<int64_t>(2 * rows.size()));
    for (int64_t k = 0; k < t.numel(); ++k)
      EXPECT_EQ(t.f64(k), rows[static_cast<size_t>(k) % rows.size()]) << "element " << k;
  };
  expect(sum(1, 2), {1, 1});
  expect(sum(9, 2), {2, 2});
  expect(sum(1, 3), {3, 3, 1});
  expect(sum(5, 3), {4, 4, 2});
  expect(sum(1, 5000), [] {
    std::vector<double> v(5000, 1);
    v[0] = v[1] = 5;
    v[2] = 3;
    return v;
  }());
  expect(sum(9, 2), {1, 1});  // smaller: it begins anew, though the shape was kept
  expect(sum(1, 3), {2, 2, 1});
}

// The small state could grow; the large one cannot, and then neither does.
TEST(State, StatesGrowTogetherOrNotAtAll) {
  ProgramMaker m;
  m.p.dims = {"capacity"};
  const int32_t one = m.input("x", DType::kF32, "[capacity]"), wide = m.input("z", DType::kF32, "[1000,capacity]");
  const int32_t small = m.buffer("small", BufferKind::kState, DType::kF32, "[capacity]");
  const int32_t large = m.buffer("large", BufferKind::kState, DType::kF32, "[1000,capacity]");
  m.reference({small, one}, {small},
              "graph { input s: f32[capacity]; input a: f32[capacity]; y = add(s, a); output y }")
      .shares = {0};
  m.reference({large, wide}, {large},
              "graph { input s: f32[1000,capacity]; input a: f32[1000,capacity]; y = add(s, a); output y }")
      .shares = {0};
  m.output("y", small);
  Counted counted;
  {
    const auto engine = engine_of(m.p, &counted);
    ASSERT_TRUE(engine.ok()) << engine.error().text();
    auto session = Session::create(*engine, 1).value();
    const auto run = [&](int64_t n) { return session->run(std::vector<Tensor>{ones({n}), ones({1000, n})}); };
    EXPECT_EQ(run(2).value()[0].f64(0), 1);
    counted.most = 10000;
    EXPECT_EQ(run(3).error().kind, ErrorKind::kMemory);
    counted.most = SIZE_MAX;
    EXPECT_EQ(run(2).value()[0].f64(0), 2) << "the first state was not touched";
    EXPECT_EQ(run(3).value()[0].f64(0), 3);
  }
}

TEST(State, GrowsInPlaceAndApartInEveryAxis) {
  constexpr uint64_t kSeed = 11;
  Rng rng(kSeed);
  for (int turn = 0; turn < 300; ++turn) {
    const size_t rank = static_cast<size_t>(rng.below(4));
    std::vector<int64_t> from, to;
    int64_t count = 1, total = 1;
    for (size_t k = 0; k < rank; ++k) {
      from.push_back(rng.below(4));
      to.push_back(from.back() + rng.below(3));
      count *= from.back();
      total *= to.back();
    }
    std::vector<uint32_t> old(static_cast<size_t>(std::max(count, total)), 0xffffffff), fresh(old.size(), 0xffffffff);
    for (int64_t k = 0; k < count; ++k) old[static_cast<size_t>(k)] = static_cast<uint32_t>(k + 1);
    std::vector<uint32_t> want(static_cast<size_t>(total), 0);
    for (int64_t k = 0; k < count; ++k) {
      int64_t left = k, at = 0, step = 1;
      for (size_t axis = rank; axis-- > 0; step *= to[axis], left /= from[axis]) at += left % from[axis] * step;
      want[static_cast<size_t>(at)] = static_cast<uint32_t>(k + 1);
    }
    const auto bytes = [](std::vector<uint32_t>& v) { return reinterpret_cast<std::byte*>(v.data()); };
    grow_contents(bytes(old), from, bytes(fresh), to, 4);
    grow_contents(bytes(old), from, bytes(old), to, 4);
    fresh.resize(static_cast<size_t>(total));
    old.resize(static_cast<size_t>(total));
    EXPECT_EQ(fresh, want) << "seed " << kSeed << " turn " << turn;
    EXPECT_EQ(old, want) << "seed " << kSeed << " turn " << turn;
  }
}

}  // namespace
}  // namespace peri::runtime
