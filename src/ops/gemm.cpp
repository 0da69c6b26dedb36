// Gemm: y = alpha * a' b' + beta * c, where ' is an optional transposition and c broadcasts to [m, n]. With beta = 0, c
// is not read.
#include <algorithm>
#include <cmath>

#include "ops/reference/cost.hpp"
#include "ops/reference/dense.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_runs.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/reference/scattered.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  for (size_t k = 0; k < 2; ++k)
    if (c.rank(k) != 2)
      return invalid("%s is not a matrix", k ? "b" : "a").expecting("rank 2").but_found(shape_text(c.shape(k)));
  const bool ta = c.node.i("transA") != 0, tb = c.node.i("transB") != 0;
  const Dim &m = c.shape(0)[ta], &k = c.shape(0)[!ta], &l = c.shape(1)[tb], &n = c.shape(1)[!tb];
  if (k.is_const() && l.is_const() && !(k == l))
    return invalid("the inner dimensions differ").expecting(k.text()).but_found(l.text());
  Shape y = {m, n};
  if (c.has(2)) {
    PERI_ASSIGN(const Shape wide, broadcast(c.shape(2), y));
    if (wide.size() > 2)
      return invalid("c does not broadcast to the product").expecting(shape_text(y)).but_found(shape_text(c.shape(2)));
    for (size_t d = 0; d < 2; ++d)
      if (y[d].is_const() && !(wide[d] == y[d]))
        return invalid("c does not broadcast to the product")
            .expecting(shape_text(y))
            .but_found(shape_text(c.shape(2)));
  }
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

struct Sizes {
  int64_t m, n, k, a_row, a_column, b_row, b_column;  // steps in elements
  double alpha, beta;
  std::vector<int64_t> y, c_steps;
  explicit Sizes(const ir::Node& node) : alpha(node.f("alpha", 1)), beta(node.f("beta", 1)), y(concrete(*node.out())) {
    const bool ta = node.i("transA") != 0, tb = node.i("transB") != 0;
    const std::vector<int64_t> a = concrete(*node.in(0)), b = concrete(*node.in(1));
    m = y[0];
    n = y[1];
    k = a[!ta];
    a_row = ta ? 1 : a[1];
    a_column = ta ? a[1] : 1;
    b_row = tb ? 1 : b[1];
    b_column = tb ? b[1] : 1;
    if (node.in(2)) c_steps = broadcast_strides(concrete(*node.in(2)), y);
  }
  int64_t c_at(int64_t p) const { return broadcast_index(p, y, c_steps); }
};

// From the plain product to the output at flat position p: alpha, c and their rounding.
void finish(RefCall& call, const Sizes& s, int64_t p, double product, double radius) {
  const RefTensor* c = call.in.size() > 2 && s.beta != 0 ? call.in[2] : nullptr;
  RefTensor& y = call.out[0];
  const double term = c ? s.beta * c->f[static_cast<size_t>(s.c_at(p))] : 0, v = s.alpha * product + term;
  y.f[static_cast<size_t>(p)] = v;
  if (call.u == 0) return;
  const double added = c ? std::fabs(s.beta) * c->r(s.c_at(p)) : 0;
  y.radius[static_cast<size_t>(p)] =
      std::fabs(s.alpha) * radius + added + sum_radius(call.u, 1, std::fabs(s.alpha * product) + std::fabs(term));
}

// Exact arguments: positions that share a column share what is read of it.
void exact_at_positions(RefCall& call, const Sizes& s) {
  std::vector<ScatteredSum> elements;
  for (const int64_t at : call.positions) elements.push_back({at / s.n * s.a_row, at % s.n * s.b_column, at});
  scattered_sums(std::move(elements), s.k, call.in[0]->f.data(), s.a_column, call.in[1]->f.data(), s.b_row,
                 call.threads, [&](int64_t to, double sum, double magnitude) {
                   finish(call, s, to, sum,
                          sum_radius(call.u, s.k + 1, magnitude) + steady_radius(call.u, s.k + 1, sum));
                 });
}

void at_positions(RefCall& call, const Sizes& s) {
  const RefTensor &a = *call.in[0], &b = *call.in[1];
  RefTensor& y = call.out[0];
  if (y.floating() && !call.positions.empty() && a.radius.empty() && b.radius.empty())
    return exact_at_positions(call, s);
  const RefTensor* c = call.in.size() > 2 && s.beta != 0 ? call.in[2] : nullptr;
  each_run(call, s.n, s.n, [&](int64_t first, int64_t count) {
    const int64_t from_a = first / s.n * s.a_row;
    if (count >= kDenseRun && y.floating()) {
      std::vector<double> sums(static_cast<size_t>(count), 0.0), radii(sums);
      dense_product(1, count, s.k, side(a, from_a, s.a_row, s.a_column),
                    side(b, first % s.n * s.b_column, s.b_row, s.b_column), call.u, s.k + 1, sums.data(), radii.data(),
                    count);
      for (int64_t k = 0; k < count; ++k)
        finish(call, s, first + k, sums[static_cast<size_t>(k)], radii[static_cast<size_t>(k)]);
      return;
    }
    for (int64_t at = first; at < first + count; ++at) {
      const int64_t from_b = at % s.n * s.b_column;
      if (y.floating()) {
        ProductSum sum;
        for (int64_t p = 0; p < s.k; ++p) {
          const int64_t ia = from_a + p * s.a_column, ib = from_b + p * s.b_row;
          sum.add(a.f[static_cast<size_t>(ia)], a.r(ia), b.f[static_cast<size_t>(ib)], b.r(ib));
        }
        finish(call, s, at, sum.value, sum.radius(call.u, s.k + 1));
        continue;
      }
      uint64_t sum = 0;
      for (int64_t p = 0; p < s.k; ++p)
        sum += static_cast<uint64_t>(a.i[static_cast<size_t>(from_a + p * s.a_column)]) *
               static_cast<uint64_t>(b.i[static_cast<size_t>(from_b + p * s.b_row)]);
      if (s.alpha == 1 && (s.beta == 1 || !c)) {
        if (c) sum += static_cast<uint64_t>(c->i[static_cast<size_t>(s.c_at(at))]);
        y.i[static_cast<size_t>(at)] = wrap(y.dtype, static_cast<int64_t>(sum));
      } else {
        const double v = s.alpha * int_value(y.dtype, wrap(y.dtype, static_cast<int64_t>(sum))) +
                         (c ? s.beta * int_value(y.dtype, c->i[static_cast<size_t>(s.c_at(at))]) : 0);
        y.i[static_cast<size_t>(at)] = int_from(y.dtype, v);
      }
    }
  });
}

void whole(RefCall& call, const Sizes& s) {
  RefTensor& y = call.out[0];
  std::fill(y.f.begin(), y.f.end(), 0.0);
  std::fill(y.radius.begin(), y.radius.end(), 0.0);
  constexpr int64_t kChunk = 96;
  const bool by_columns = s.m < kChunk * call.threads;
  const int64_t along = by_columns ? s.n : s.m;
  parallel_for(call.threads, (along + kChunk - 1) / kChunk, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kChunk, count = std::min(along, end * kChunk) - first;
    const int64_t row = by_columns ? 0 : first, column = by_columns ? first : 0, to = row * s.n + column;
    dense_product(by_columns ? s.m : count, by_columns ? count : s.n, s.k,
                  side(*call.in[0], row * s.a_row, s.a_row, s.a_column),
                  side(*call.in[1], column * s.b_column, s.b_row, s.b_column), call.u, s.k + 1, y.f.data() + to,
                  y.radius.data() + to, s.n);
  });
  for (int64_t p = 0; p < y.numel(); ++p)
    finish(call, s, p, y.f[static_cast<size_t>(p)], y.radius[static_cast<size_t>(p)]);
}

Status reference(RefCall& call) {
  if (call.out[0].numel() == 0) return Ok{};
  const Sizes s(call.node);
  if (call.out[0].floating() && call.positions.empty()) {
    whole(call, s);
  } else {
    at_positions(call, s);
  }
  settle_radii(call.out[0], call.positions);
  return Ok{};
}

bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const Sizes s(node);
  const std::vector<int64_t> dims = concrete(*node.in(port));
  int64_t numel = 1;
  for (int64_t d : dims) numel *= d;
  PositionSet set(numel);
  for (int64_t p : positions) {
    if (port == 2) {
      set.add(s.c_at(p));
    } else {
      const int64_t first = port == 0 ? p / s.n * s.a_row : p % s.n * s.b_column,
                    step = port == 0 ? s.a_column : s.b_row;
      if (s.k > 0 && !set.contains(first)) set.add_range(first, first + s.k * step, step);
    }
  }
  set.list(needed);
  return true;
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const Dim& k = (*node.in(0)->type.shape)[node.i("transA") == 0];
  c.flops = elements_of(*node.out()) * (2 * static_cast<double>(k.is_const() ? k.value() : 1) + (node.in(2) ? 1 : 0));
  return c;
}

constexpr TypeSet kTypes = kFloats | types({DType::kI32, DType::kI64, DType::kU32, DType::kU64});

double fan_in(const ir::Node& node, std::span<const int64_t> w) {
  return w.empty() ? 1 : static_cast<double>(node.i("transB") ? w.back() : w[0]);
}

bool any_size(const ir::Node& node) {
  const Dim &k = shape_of(node.in(0))[node.i("transA") == 0], &l = shape_of(node.in(1))[node.i("transB") != 0];
  return k == l && (!node.in(2) || aligned(shape_of(node.in(2)), shape_of(node.out())));
}

}  // namespace

extern const Entry gemm_entry;
const Entry gemm_entry{{
    {.name = "gemm",
     .onnx = "Gemm",
     .versions = {7, 9, 11, 13},
     .inputs = {{"a", kTypes},
                {"b", kTypes, false, false, 0, Role::kWeight},
                {"c", kTypes, true, false, 0, Role::kBias}},
     .outputs = {{"y"}},
     .attrs = {{"alpha", AttrKind::kFloat, false, "1"},
               {"beta", AttrKind::kFloat, false, "1"},
               {"transA", AttrKind::kInt, false, "0"},
               {"transB", AttrKind::kInt, false, "0"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .anchor = true,
     .fan_in = fan_in,
     .any_size = any_size,
     .samples =
         {"graph { input a: f32[3,17]; const b: f32[9,17] = seeded(0.3, 1); const c: f32[9] = seeded(0.3, 2); y = "
          "gemm(a, b, c) {transB=1}; output y }",
          "graph { input a: f32[5,4]; input b: f32[5,6]; input c: f32[4,1]; y = gemm(a, b, c) {alpha=0.5, beta=2.0, "
          "transA=1}; output y }",
          "graph { input a: f32[4,5]; input b: f32[5,6]; input c: f32[]; y = gemm(a, b, c) {beta=0.0}; output y }",
          "graph { input a: f32[1,64]; input b: f32[64,40]; y = gemm(a, b); output y }",
          "graph { input a: f32[2,0]; input b: f32[0,3]; input c: f32[1,3]; y = gemm(a, b, c); output y }",
          "graph { input a: f16[4,32]; input b: f16[32,8]; input c: f16[8]; y = gemm(a, b, c); output y }",
          "graph { input a: i32[2,3]; input b: i32[3,2]; input c: i32[2]; y = gemm(a, b, c) {alpha=2.0}; output y }"}},
}};
}  // namespace peri::ops
