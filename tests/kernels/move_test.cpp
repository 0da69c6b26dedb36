// Copies, gathers and pads against index arithmetic, for every element size, with guard pages and any order of tasks.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/cpu/move/copy.hpp"
#include "kernels/cpu/move/gather.hpp"
#include "tests/kernels/guarded_bytes.hpp"

namespace peri::kernels::cpu::move {
namespace {

using tests::GuardedBytes;
using Dims = std::vector<int64_t>;

int64_t count_of(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// Runs the copy backwards over its tasks and compares every place of the destination; places not written keep 0xee.
void check(const CopyShape& s) {
  const auto plan = make_plan(s);
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  const int64_t bytes = s.element_bytes;
  const GuardedBytes from(s.from_size * bytes), to(s.to_size * bytes);
  std::vector<uint8_t> want(static_cast<size_t>(s.to_size * bytes), 0xee);
  for (int64_t i = 0; i < s.from_size * bytes; ++i) from.as<uint8_t>()[i] = static_cast<uint8_t>(i * 7 + i / 256 * 13);
  for (int64_t t = task_count(*plan); t-- > 0;) run_task(*plan, from.as<void>(), to.as<void>(), t);
  Dims at(s.dims.size(), 0);
  for (int64_t k = 0; k < count_of(s.dims); ++k) {
    int64_t a = s.from_offset, b = s.to_offset;
    for (size_t d = 0; d < at.size(); ++d) {
      a += at[d] * s.from_strides[d];
      b += at[d] * s.to_strides[d];
    }
    std::memcpy(want.data() + b * bytes, from.as<uint8_t>() + a * bytes, static_cast<size_t>(bytes));
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < s.dims[d]) break;
      at[d] = 0;
    }
  }
  ASSERT_TRUE(want.empty() || std::memcmp(want.data(), to.as<uint8_t>(), want.size()) == 0);
}

TEST(MoveTest, Transposes) {
  for (const int bytes : {1, 2, 4, 8, 16}) {
    struct Case {
      Dims dims, perm;
    };
    const Case cases[] = {{{1}, {0}},
                          {{7, 5}, {1, 0}},
                          {{64, 96}, {1, 0}},
                          {{130, 67}, {1, 0}},
                          {{2, 3, 50, 50}, {0, 2, 3, 1}},
                          {{2, 17, 19, 33}, {0, 3, 1, 2}},
                          {{2, 30, 4, 16}, {0, 2, 1, 3}},
                          {{2, 30, 4, 16}, {0, 2, 3, 1}},
                          {{3, 4, 5, 6, 7}, {4, 2, 0, 3, 1}},
                          {{3, 64, 17, 2}, {0, 2, 1, 3}},  // rows that become elements
                          {{5, 7, 9, 4}, {2, 0, 1, 3}},
                          {{6, 10, 8}, {1, 0, 2}},
                          {{3, 1, 5}, {2, 1, 0}},
                          {{4, 5, 6}, {0, 1, 2}},
                          {{600, 300}, {1, 0}}};
    for (const Case& c : cases) check(*transpose_shape(bytes, c.dims, c.perm));
  }
  EXPECT_FALSE(transpose_shape(4, {2, 3}, {0, 0}).ok());
  EXPECT_FALSE(transpose_shape(4, {2, 3}, {0, 2}).ok());
  EXPECT_FALSE(transpose_shape(4, {2, 3}, {0}).ok());
}

TEST(MoveTest, PlacesAndSlices) {
  for (const int bytes : {1, 4, 8}) {
    check(*place_shape(bytes, {4, 9, 10}, {4, 3, 10}, {0, 5, 0}));
    check(*place_shape(bytes, {4, 9, 10}, {4, 9, 3}, {0, 0, 7}));
    check(*place_shape(bytes, {200, 300}, {100, 300}, {100, 0}));
    check(*place_shape(bytes, {40, 7, 4}, {40, 7, 2}, {0, 0, 2}));
    check(*place_shape(bytes, {40, 7, 4}, {40, 7, 2}, {0, 0, 1}));
    check(*slice_shape(bytes, {10, 20, 30}, {2, 0, 5}, {1, 1, 1}, {3, 20, 7}));
    check(*slice_shape(bytes, {10, 20, 30}, {9, 19, 29}, {-1, -3, -2}, {10, 7, 15}));
    check(*slice_shape(bytes, {10, 20}, {0, 1}, {2, 4}, {5, 5}));
    check(*slice_shape(bytes, {10, 20}, {0, 0}, {1, 1}, {0, 20}));
  }
  EXPECT_FALSE(place_shape(4, {4, 9}, {4, 3}, {0, 7}).ok());
  EXPECT_FALSE(place_shape(4, {4, 9}, {4, 3}, {0, -1}).ok());
  EXPECT_FALSE(slice_shape(4, {10}, {3}, {4}, {3}).ok());
  EXPECT_FALSE(slice_shape(4, {10}, {3}, {-2}, {3}).ok());
  EXPECT_FALSE(slice_shape(4, {10}, {10}, {1}, {1}).ok());
  EXPECT_FALSE(slice_shape(4, {10}, {1}, {int64_t{1} << 62}, {5}).ok());
}

TEST(MoveTest, ExpandsAndRefusesWhatLeavesTheTensors) {
  CopyShape s;
  s.dims = {5, 6, 7}, s.from_strides = {0, 1, 0}, s.to_strides = {42, 7, 1}, s.from_size = 6, s.to_size = 210;
  check(s);
  const auto refused = [&](auto change) {
    CopyShape t = s;
    change(&t);
    return !make_plan(t).ok();
  };
  EXPECT_TRUE(refused([](CopyShape* t) { t->from_size = 5; }));
  EXPECT_TRUE(refused([](CopyShape* t) { t->to_size = 209; }));
  EXPECT_TRUE(refused([](CopyShape* t) { t->from_offset = 1; }));
  EXPECT_TRUE(refused([](CopyShape* t) { t->from_strides[1] = -1; }));
  EXPECT_TRUE(refused([](CopyShape* t) {
    t->to_strides[1] = -7;
    t->to_offset = 100;
  }));
  EXPECT_TRUE(refused([](CopyShape* t) { t->dims[0] = -5; }));
  EXPECT_TRUE(refused([](CopyShape* t) { t->dims[0] = int64_t{1} << 60; }));
  EXPECT_TRUE(refused([](CopyShape* t) { t->from_strides[1] = int64_t{1} << 61; }));
  EXPECT_TRUE(refused([](CopyShape* t) { t->element_bytes = 3; }));
  EXPECT_TRUE(refused([](CopyShape* t) { t->to_strides.pop_back(); }));
}

TEST(MoveTest, GathersRowsAndRefusesBadIndices) {
  for (const bool wide : {true, false}) {
    for (const int64_t row : {1, 4, 12, 1536}) {
      GatherShape s;
      s.outer = 2;
      s.axis = 9;
      s.indices = 5;
      s.row_bytes = row;
      s.wide = wide;
      const GuardedBytes x(2 * 9 * row), y(2 * 5 * row), index(5 * (wide ? 8 : 4));
      for (int64_t i = 0; i < 2 * 9 * row; ++i) x.as<uint8_t>()[i] = static_cast<uint8_t>(i * 11 + i / 251);
      const int64_t values[] = {0, 8, -1, -9, 3};
      const auto set = [&](int64_t k, int64_t v) {
        if (wide) index.as<int64_t>()[k] = v;
        if (!wide) index.as<int32_t>()[k] = static_cast<int32_t>(v);
      };
      for (int64_t k = 0; k < 5; ++k) set(k, values[k]);
      const auto plan = make_plan(s);
      ASSERT_TRUE(plan.ok());
      for (int64_t t = 0; t < task_count(*plan); ++t)
        EXPECT_TRUE(run_task(*plan, x.as<void>(), index.as<void>(), y.as<void>(), t).ok());
      for (int64_t o = 0; o < 2; ++o) {
        for (int64_t k = 0; k < 5; ++k) {
          const int64_t at = values[k] < 0 ? values[k] + 9 : values[k];
          EXPECT_EQ(std::memcmp(y.as<char>() + (o * 5 + k) * row, x.as<char>() + (o * 9 + at) * row,
                                static_cast<size_t>(row)),
                    0);
        }
      }
      for (const int64_t bad : {9, -10, 1 << 30}) {
        set(2, bad);
        bool all = true;
        for (int64_t t = 0; t < task_count(*plan); ++t)
          all &= run_task(*plan, x.as<void>(), index.as<void>(), y.as<void>(), t).ok();
        EXPECT_FALSE(all) << bad;
      }
    }
  }
}

// The place that numpy's pad takes, by walking.
int64_t padded_place(PadMode mode, int64_t o, int64_t n) {
  if (mode == PadMode::kConstant) return o < 0 || o >= n ? -1 : o;
  if (mode == PadMode::kEdge) return o < 0 ? 0 : o >= n ? n - 1 : o;
  while (o < 0 || o >= n) {
    if (mode == PadMode::kWrap) o += o < 0 ? n : -n;
    if (mode == PadMode::kReflect) o = n == 1 ? 0 : o < 0 ? -o : 2 * (n - 1) - o;
  }
  return o;
}

TEST(MoveTest, Pads) {
  for (const PadMode mode : {PadMode::kConstant, PadMode::kEdge, PadMode::kReflect, PadMode::kWrap}) {
    for (const int bytes : {1, 2, 4, 8}) {
      for (const Dims& before : {Dims{0, 0, 0}, Dims{1, 2, 3}, Dims{0, 3, 9}, Dims{-1, 1, -2}}) {
        PadShape s;
        s.mode = mode, s.element_bytes = bytes, s.dims = {3, 4, 5}, s.before = before, s.after = {2, 1, 4};
        s.value = 0x0102030405060708u;
        const auto plan = make_plan(s);
        ASSERT_TRUE(plan.ok()) << plan.error().text();
        const Dims out = {3 + before[0] + 2, 4 + before[1] + 1, 5 + before[2] + 4};
        ASSERT_EQ(plan->out, out);
        const GuardedBytes x(60 * bytes), y(count_of(out) * bytes);
        for (int64_t i = 0; i < 60 * bytes; ++i) x.as<uint8_t>()[i] = static_cast<uint8_t>(i + 40);
        for (int64_t t = task_count(*plan); t-- > 0;) run_task(*plan, x.as<void>(), y.as<void>(), t);
        int64_t k = 0;
        for (int64_t a = 0; a < out[0]; ++a) {
          for (int64_t b = 0; b < out[1]; ++b) {
            for (int64_t c = 0; c < out[2]; ++c, ++k) {
              const int64_t p = padded_place(mode, a - before[0], 3), q = padded_place(mode, b - before[1], 4),
                            r = padded_place(mode, c - before[2], 5);
              const char* want = reinterpret_cast<const char*>(&s.value);
              if (p >= 0 && q >= 0 && r >= 0) want = x.as<char>() + ((p * 4 + q) * 5 + r) * bytes;
              ASSERT_EQ(std::memcmp(y.as<char>() + k * bytes, want, static_cast<size_t>(bytes)), 0)
                  << a << " " << b << " " << c;
            }
          }
        }
      }
    }
  }
  PadShape bad;
  bad.dims = {3}, bad.before = {-4}, bad.after = {0};
  EXPECT_FALSE(make_plan(bad).ok());
  bad.before = {int64_t{1} << 50};
  EXPECT_FALSE(make_plan(bad).ok());
  bad.dims = {0}, bad.before = {1}, bad.mode = PadMode::kEdge;
  EXPECT_FALSE(make_plan(bad).ok());
}

}  // namespace
}  // namespace peri::kernels::cpu::move
