// GEMM against float64 sums: every tile edge, every form of b, blocks of k, batches with strides, epilogues; no access
// out of bounds; the same bits for any order of tasks, any number of threads and every Isa this machine runs.
#include "kernels/cpu/gemm/gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "bounds.hpp"
#include "guarded.hpp"
#include "kernels/cpu/gemm/pack.hpp"

namespace peri::kernels::cpu {
namespace {

struct Case {
  int64_t m, n, k;
  BForm form = BForm::kPacked;
  float scale = 1;
};

// Runs every task, in ascending or descending order.
void run_all(const GemmPlan& plan, const GemmArgs& args, bool descending = false) {
  Guarded scratch(plan.scratch_floats);
  scratch.fill(std::numeric_limits<float>::quiet_NaN());
  for (int64_t t = 0; t < plan.tasks; ++t) run_task(plan, args, descending ? plan.tasks - 1 - t : t, scratch.data());
}

std::vector<float> check(const Case& test, Isa isa, uint64_t seed, Guarded::Side side, const Epilogue& epilogue = {}) {
  const auto [m, n, k, form, scale] = test;
  Guarded a(m * k, side), b(k * n, side), c(m * n, side);
  a.randomise(seed, scale);
  b.randomise(seed + 1, scale);
  c.fill(std::numeric_limits<float>::quiet_NaN());
  const GemmPlan plan = plan_gemm({.m = m, .n = n, .k = k, .b_form = form}, isa);
  Guarded packed(form == BForm::kPacked ? packed_b_floats(k, n, isa) : 0, side);
  if (form == BForm::kPacked) pack_b(b.data(), n, false, k, n, isa, packed.data());
  GemmArgs args;
  args.a = a.data();
  args.lda = k;
  args.b = form == BForm::kPacked ? packed.data() : b.data();
  args.ldb = form == BForm::kTransposed ? k : n;
  args.c = c.data();
  args.ldc = n;
  args.epilogue = epilogue;
  const auto copy_panel = [&](const MadePanel& p, float* out) {
    pack_panel(b.data() + p.k0 * n + p.column, n, false, p.depth, p.columns, p.width, out);
  };
  const MakePanel make = copy_panel;
  args.make = &make;
  run_all(plan, args);
  std::vector<float> out(c.begin(), c.end());
  int wrong = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const float* column = form == BForm::kTransposed ? &b[j * k] : &b[j];
      const Bounded want = finish(epilogue, dot(&a[i * k], column, form == BForm::kTransposed ? 1 : n, k), i, j);
      const double got = c[i * n + j];
      if (std::abs(got - want.value) <= want.radius) continue;
      if (++wrong <= 3) {
        ADD_FAILURE() << plan_text(plan) << " seed=" << seed << " at " << i << "," << j << ": " << got << " want "
                      << want.value << " +- " << want.radius;
      }
    }
  }
  c.fill(std::numeric_limits<float>::quiet_NaN());
  run_all(plan, args, true);
  EXPECT_EQ(std::memcmp(out.data(), c.data(), out.size() * sizeof(float)), 0) << plan_text(plan) << ": order of tasks";
  for (const int threads : {2, 16, 61}) {
    const GemmPlan other = plan_gemm(plan.shape, isa, {}, threads);
    if (other.tasks == plan.tasks) continue;
    c.fill(std::numeric_limits<float>::quiet_NaN());
    run_all(other, args);
    EXPECT_EQ(std::memcmp(out.data(), c.data(), out.size() * sizeof(float)), 0)
        << plan_text(other) << ": other bits than " << plan_text(plan);
  }
  return out;
}

const BForm kForms[] = {BForm::kPacked, BForm::kRowMajor, BForm::kTransposed, BForm::kMade};

TEST(Gemm, EveryTileEdge) {
  for (Isa isa : isas_here()) {
    for (int64_t m = 1; m <= 30; ++m) {
      for (int64_t n : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 50, 64, 100, 128, 130}) {
        check({m, n, 1 + (m * 7 + n) % 19, kForms[(m + n) % 4]}, isa, 100 * m + n,
              m % 2 ? Guarded::Side::kEnd : Guarded::Side::kBegin);
      }
    }
  }
}

TEST(Gemm, AnswersDoNotDependOnTheIsa) {
  if (isas_here().size() < 2) GTEST_SKIP() << "one instruction set here";
  for (BForm form : kForms) {
    const Case test{37, 75, 1700, form};
    EXPECT_EQ(check(test, Isa::kAvx2, 5, Guarded::Side::kEnd), check(test, Isa::kAvx512, 5, Guarded::Side::kEnd));
  }
}

TEST(Gemm, BlocksOfKAndRowsAndMagnitudes) {
  for (Isa isa : isas_here()) {
    for (float scale : {1e-15f, 1.0f, 1e15f}) check({300, 70, 129, BForm::kPacked, scale}, isa, 7, Guarded::Side::kEnd);
    for (BForm form : kForms) {
      check({14, 33, 4000, form}, isa, 8, Guarded::Side::kEnd);
      check({1, 200, 3073, form}, isa, 9, Guarded::Side::kEnd);
      check({3, 300, 1537, form}, isa, 10, Guarded::Side::kEnd);
      check({2, 1, 1, form}, isa, 11, Guarded::Side::kEnd);
    }
    check({5, 6, 0}, isa, 12, Guarded::Side::kEnd);
  }
}

TEST(Gemm, Epilogues) {
  const int64_t m = 17, n = 45, k = 23;
  Guarded bias(n), rows(m), residual(m * n), mask(n);
  bias.randomise(1);
  rows.randomise(2);
  residual.randomise(3);
  mask.randomise(4);
  for (Isa isa : isas_here()) {
    for (Activation act : {Activation::kRelu, Activation::kClip, Activation::kLeakyRelu, Activation::kSigmoid,
                           Activation::kSilu, Activation::kTanh, Activation::kHardSigmoid, Activation::kHardSwish,
                           Activation::kGelu, Activation::kGeluTanh}) {
      Epilogue e;
      add_bias(e, bias.data());
      add_residual(e, residual.data(), n);
      add_activation(e, act, act == Activation::kClip ? -0.25f : 0.2f, 0.5f);
      check({m, n, k}, isa, 20, Guarded::Side::kEnd, e);
      Epilogue after;
      add_activation(after, act, act == Activation::kClip ? -0.25f : 0.2f, 0.5f);
      add_residual(after, residual.data(), n);
      check({m, n, k}, isa, 21, Guarded::Side::kEnd, after);
    }
    Epilogue all;
    add_op(all, {.kind = PostKind::kAffine, .a = 0.125f, .b = 0.25f});
    add_op(all, {.kind = PostKind::kColMul, .data = bias.data()});
    add_op(all, {.kind = PostKind::kRowMul, .data = rows.data()});
    add_op(all, {.kind = PostKind::kRowAdd, .data = rows.data()});
    add_op(all, {.kind = PostKind::kMul, .data = residual.data(), .ld = n});
    add_op(all, {.kind = PostKind::kAdd, .data = mask.data(), .ld = 0});
    check({m, n, k}, isa, 22, Guarded::Side::kEnd, all);
    check({m, n, 3500}, isa, 23, Guarded::Side::kEnd, all);
  }
}

// Attention's scores and its product with the values, straight from [batch, sequence, heads, depth].
TEST(Gemm, BatchOfHeadsWithoutTranspose) {
  const int64_t batch = 2, heads = 3, s = 21, d = 20, row = heads * d;
  for (Isa isa : isas_here()) {
    Guarded q(batch * s * row), k(batch * s * row), v(batch * s * row), scores(batch * heads * s * s),
        out(batch * s * row), mask(batch * s);
    q.randomise(1);
    k.randomise(2);
    v.randomise(3);
    mask.randomise(4);
    const GemmShape first{
        .m = s, .n = s, .k = d, .batch = batch * heads, .batch_inner = heads, .b_form = BForm::kTransposed};
    GemmArgs args{.a = q.data(),
                  .lda = row,
                  .a_outer = s * row,
                  .a_inner = d,
                  .b = k.data(),
                  .ldb = row,
                  .b_outer = s * row,
                  .b_inner = d,
                  .c = scores.data(),
                  .ldc = s,
                  .c_outer = heads * s * s,
                  .c_inner = s * s};
    add_op(args.epilogue, {.kind = PostKind::kAdd, .data = mask.data(), .ld = 0, .outer_stride = s});
    run_all(plan_gemm(first, isa), args);
    const GemmShape second{
        .m = s, .n = d, .k = s, .batch = batch * heads, .batch_inner = heads, .b_form = BForm::kRowMajor};
    GemmArgs then{.a = scores.data(),
                  .lda = s,
                  .a_outer = heads * s * s,
                  .a_inner = s * s,
                  .b = v.data(),
                  .ldb = row,
                  .b_outer = s * row,
                  .b_inner = d,
                  .c = out.data(),
                  .ldc = row,
                  .c_outer = s * row,
                  .c_inner = d};
    run_all(plan_gemm(second, isa), then);
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t head = i * s * row + h * d;
        for (int64_t r = 0; r < s; ++r) {
          const float* score_row = &scores[((i * heads + h) * s + r) * s];
          for (int64_t c = 0; c < s; ++c) {
            const Bounded want = dot(&q[head + r * row], &k[head + c * row], 1, d);
            ASSERT_NEAR(score_row[c], want.value + mask[i * s + c], want.radius + 1e-6);
          }
          for (int64_t c = 0; c < d; ++c) {
            const Bounded want = dot(score_row, &v[head + c], row, s);
            ASSERT_NEAR(out[head + r * row + c], want.value, want.radius);
          }
        }
      }
    }
  }
}

TEST(Gemm, NanAndInfinityPassThrough) {
  const float inf = std::numeric_limits<float>::infinity();
  for (Isa isa : isas_here()) {
    Guarded a(2 * 3), b(3 * 5), c(2 * 5), packed(packed_b_floats(3, 5, isa));
    a.fill(1);
    b.fill(1);
    a[1] = std::numeric_limits<float>::quiet_NaN();
    a[4] = inf;
    pack_b(b.data(), 5, false, 3, 5, isa, packed.data());
    GemmArgs args{.a = a.data(), .lda = 3, .b = packed.data(), .c = c.data(), .ldc = 5};
    add_activation(args.epilogue, Activation::kRelu);
    run_all(plan_gemm({.m = 2, .n = 5, .k = 3}, isa), args);
    for (int j = 0; j < 5; ++j) {
      EXPECT_TRUE(std::isnan(c[j]));
      EXPECT_EQ(c[5 + j], inf);
    }
  }
}

}  // namespace
}  // namespace peri::kernels::cpu
