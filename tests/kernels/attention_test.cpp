// Fused attention against double arithmetic: tails in every dim, strides of split and packed heads, masks, soft cap,
// causal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/attention/attention.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/kernels/runs_here.hpp"

namespace peri::kernels::cpu::attention {
namespace {

std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (runs_here(isa)) list.push_back(isa);
  }
  return list;
}

int64_t at(const Strides& s, int64_t b, int64_t h, int64_t r, int64_t d) {
  return b * s.batch + h * s.head + r * s.row + d * s.step;
}

void check(const Shape& s, Isa isa, float magnitude = 1) {
  const auto plan = make_plan(s, isa);
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  const Guarded q(s.batch * s.heads * s.queries * s.depth), k(s.batch * s.kv_heads * s.keys * s.depth);
  const Guarded v(s.batch * s.kv_heads * s.keys * s.value_depth), o(s.batch * s.heads * s.queries * s.value_depth);
  const Guarded mask(s.batch * s.heads * s.queries * s.keys);
  q.randomise(1, magnitude);
  k.randomise(2, magnitude);
  v.randomise(3);
  mask.randomise(4, 2);
  if (s.mask == Mask::kBool) {
    uint8_t* bytes = reinterpret_cast<uint8_t*>(mask.data());
    for (int64_t i = 0; i < mask.size() * 4; ++i) bytes[i] = i % 3 != 0;
  }
  o.fill(std::numeric_limits<float>::quiet_NaN());
  const Args args{q.data(), k.data(), v.data(), mask.data(), o.data()};
  for (int64_t t = task_count(*plan); t-- > 0;) {
    const Guarded scratch((scratch_bytes(*plan) + 63) / 64 * 16);
    scratch.fill(std::numeric_limits<float>::quiet_NaN());
    run_task(*plan, args, t, scratch.data());
  }
  std::vector<double> p(static_cast<size_t>(s.keys));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t i = 0; i < s.queries; ++i) {
        const int64_t g = h / (s.heads / s.kv_heads);
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < s.keys; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < s.depth; ++d)
            dot += static_cast<double>(q[at(s.q, b, h, i, d)]) * static_cast<double>(k[at(s.k, b, g, j, d)]);
          dot *= static_cast<double>(s.scale);
          if (s.cap > 0) dot = static_cast<double>(s.cap) * std::tanh(dot / static_cast<double>(s.cap));
          const int64_t m = at(s.mask_strides, b, h, i, j);
          if (s.mask == Mask::kAdd) dot += static_cast<double>(mask[m]);
          if (s.mask == Mask::kBool && reinterpret_cast<uint8_t*>(mask.data())[m] == 0) dot = -INFINITY;
          if (s.causal && j > i + s.causal_offset) dot = -INFINITY;
          p[static_cast<size_t>(j)] = dot;
          most = std::max(most, dot);
        }
        for (double& x : p) sum += x = std::exp(x - most);
        for (int64_t d = 0; d < s.value_depth; ++d) {
          double want = 0;
          for (int64_t j = 0; j < s.keys; ++j)
            want += p[static_cast<size_t>(j)] / sum * static_cast<double>(v[at(s.v, b, g, j, d)]);
          const double got = static_cast<double>(o[at(s.o, b, h, i, d)]);
          ASSERT_LE(std::abs(got - want), 4e-6 * static_cast<double>(magnitude * magnitude))
              << b << " " << h << " " << i << " " << d << ": " << got << " " << want;
        }
      }
    }
  }
}

Shape shape_of(int64_t queries, int64_t keys, int64_t depth, int64_t value_depth, bool packed) {
  Shape s;
  s.batch = 2;
  s.heads = 4;
  s.kv_heads = packed ? 4 : 2;
  s.queries = queries;
  s.keys = keys;
  s.depth = depth;
  s.value_depth = value_depth;
  s.scale = 1 / std::sqrt(static_cast<float>(depth));
  const auto strides = packed ? packed_heads : split_heads;
  s.q = strides(queries, s.heads, depth);
  s.k = strides(keys, s.kv_heads, depth);
  s.v = strides(keys, s.kv_heads, value_depth);
  s.o = strides(queries, s.heads, value_depth);
  return s;
}

TEST(AttentionTest, TailsInEveryDim) {
  for (Isa isa : isas()) {
    for (const bool packed : {false, true}) {
      for (const int64_t queries : {1, 2, 31, 64, 65, 130}) check(shape_of(queries, 33, 32, 32, packed), isa);
      for (const int64_t keys : {1, 5, 12, 13, 64, 197}) check(shape_of(7, keys, 32, 32, packed), isa);
      for (const int64_t depth : {1, 3, 16, 24, 64, 100, 128}) check(shape_of(9, 20, depth, depth, packed), isa);
      for (const int64_t depth : {7, 33, 48, 65, 130}) check(shape_of(9, 20, 8, depth, packed), isa);
      check(shape_of(40, 50, 64, 64, packed), isa, 4);
    }
  }
}

TEST(AttentionTest, Masks) {
  for (Isa isa : isas()) {
    for (const Mask mask : {Mask::kAdd, Mask::kBool}) {
      Shape s = shape_of(70, 45, 16, 16, true);
      s.mask = mask;
      s.mask_strides = {45, 0, 0, 1};
      check(s, isa);
      s.mask_strides = {4 * 70 * 45, 70 * 45, 45, 1};
      check(s, isa);
      s.mask_strides = {0, 0, 45, 1};
      check(s, isa);
      s.causal = true;
      s.causal_offset = 3;
      check(s, isa);
    }
  }
}

TEST(AttentionTest, Causal) {
  for (Isa isa : isas()) {
    for (const int64_t offset : {0, 1, 40}) {
      Shape s = shape_of(150, 150 + offset, 32, 32, false);
      s.causal = true;
      s.causal_offset = offset;
      check(s, isa);
    }
  }
}

TEST(AttentionTest, ATriangleMayReachBeyondTheKeys) {
  for (Isa isa : isas()) {
    for (const int64_t keys : {1, 9, 70, 200}) {
      Shape s = shape_of(150, keys, 16, 16, false);
      s.causal = true;
      s.causal_offset = 5;
      check(s, isa);
    }
  }
}

TEST(AttentionTest, SoftCap) {
  for (Isa isa : isas()) {
    for (const float cap : {0.25f, 3.0f, 50.0f}) {
      Shape s = shape_of(70, 45, 16, 16, true);
      s.cap = cap;
      check(s, isa, 4);
      s.mask = Mask::kAdd;
      s.mask_strides = {0, 0, 45, 1};
      s.causal = true;
      s.causal_offset = 3;
      check(s, isa, 4);
    }
  }
}

TEST(AttentionTest, TransposedKeysAreReadWhereTheyLie) {
  for (Isa isa : isas()) {
    Shape s = shape_of(20, 30, 16, 16, false);
    s.k = {s.kv_heads * 30 * 16, 30 * 16, 1, 30};  // [batch, head, depth, keys]
    check(s, isa);
  }
}

TEST(AttentionTest, BadShapesAreRefused) {
  const auto refused = [](auto change) {
    Shape s = shape_of(8, 8, 8, 8, false);
    change(&s);
    return !make_plan(s, Isa::kAvx2).ok();
  };
  EXPECT_FALSE(refused([](Shape*) {}));
  EXPECT_TRUE(refused([](Shape* s) { s->queries = -1; }));
  EXPECT_TRUE(refused([](Shape* s) { s->kv_heads = 3; }));
  EXPECT_TRUE(refused([](Shape* s) { s->kv_heads = 0; }));
  EXPECT_TRUE(refused([](Shape* s) { s->v.step = 2; }));
  EXPECT_TRUE(refused([](Shape* s) { s->k.row = -8; }));
  EXPECT_TRUE(refused([](Shape* s) { s->q.batch = int64_t{1} << 62; }));
  EXPECT_TRUE(refused([](Shape* s) { s->keys = 0; }));
  EXPECT_TRUE(refused([](Shape* s) {
    s->causal = true;
    s->causal_offset = -1;
  }));
}

}  // namespace
}  // namespace peri::kernels::cpu::attention
