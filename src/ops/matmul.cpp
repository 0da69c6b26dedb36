// MatMul: products of matrices over broadcast batch axes; a vector on the left is a row, on the right a column.
#include <algorithm>

#include "ops/reference/cost.hpp"
#include "ops/reference/dense.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_runs.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/reference/scattered.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/letters.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  Shape a = c.shape(0), b = c.shape(1);
  if (a.empty() || b.empty()) return invalid("%s is a scalar", a.empty() ? "a" : "b").expecting("rank >= 1");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), Dim(1));
  if (column) b.push_back(Dim(1));
  const Dim &k = a.back(), &l = b[b.size() - 2];
  const std::string letters = c.node.s("letters");
  const auto differ = [&](const char* what) {
    return letters.empty() ? invalid("%s", what) : letters_differ(letters, c.node.s("equation"));
  };
  if (k.is_const() && l.is_const() && !(k == l))
    return differ("the inner dimensions differ")
        .expecting(k.text())
        .but_found(l.text() + " in " + shape_text(c.shape(0)) + " times " + shape_text(c.shape(1)));
  auto batch = broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!batch.ok()) {
    const Error& e = batch.error();
    return differ(e.message.c_str()).expecting(e.expected).but_found(e.found);
  }
  Shape y = *std::move(batch);
  if (!row) y.push_back(a[a.size() - 2]);
  if (!column) y.push_back(b.back());
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

// One concrete product: y[batch, m, n].
struct Sizes {
  int64_t m, n, k, batches;
  std::vector<int64_t> batch, a_steps, b_steps;  // steps in elements over the batch axes
  explicit Sizes(const ir::Node& node) {
    std::vector<int64_t> a = concrete(*node.in(0)), b = concrete(*node.in(1)), y = concrete(*node.out());
    if (b.size() == 1) {
      b.push_back(1);
      y.push_back(1);
    }
    if (a.size() == 1) {
      a.insert(a.begin(), 1);
      y.insert(y.end() - 1, 1);
    }
    m = a[a.size() - 2];
    k = a.back();
    n = b.back();
    batch.assign(y.begin(), y.end() - 2);
    a_steps = broadcast_strides(std::span(a).first(a.size() - 2), batch);
    b_steps = broadcast_strides(std::span(b).first(b.size() - 2), batch);
    for (int64_t& s : a_steps) s *= m * k;
    for (int64_t& s : b_steps) s *= k * n;
    batches = span_of(batch, 0, batch.size());
    if (b.size() == 2) {
      m *= batches;
      batches = 1;
      batch.clear();
      a_steps.clear();
      b_steps.clear();
    }  // one tall product
  }
  int64_t a_at(int64_t image) const { return broadcast_index(image, batch, a_steps); }
  int64_t b_at(int64_t image) const { return broadcast_index(image, batch, b_steps); }
};

// Exact arguments: positions that share a column share what is read of it.
void exact_at_positions(RefCall& call, const Sizes& s) {
  RefTensor& y = call.out[0];
  std::vector<ScatteredSum> elements;
  for (const int64_t at : call.positions) {
    const int64_t image = at / (s.m * s.n);
    elements.push_back({s.a_at(image) + at / s.n % s.m * s.k, s.b_at(image) + at % s.n, at});
  }
  scattered_sums(std::move(elements), s.k, call.in[0]->f.data(), 1, call.in[1]->f.data(), s.n, call.threads,
                 [&](int64_t to, double sum, double magnitude) {
                   y.f[static_cast<size_t>(to)] = sum;
                   y.radius[static_cast<size_t>(to)] =
                       sum_radius(call.u, s.k, magnitude) + steady_radius(call.u, s.k, sum);
                 });
}

void at_positions(RefCall& call, const Sizes& s) {
  const RefTensor &a = *call.in[0], &b = *call.in[1];
  RefTensor& y = call.out[0];
  if (y.floating() && !call.positions.empty() && a.radius.empty() && b.radius.empty())
    return exact_at_positions(call, s);
  each_run(call, s.n, s.n, [&](int64_t first, int64_t count) {
    const int64_t image = first / (s.m * s.n), from_a = s.a_at(image) + first / s.n % s.m * s.k;
    if (count >= kDenseRun && y.floating())
      return dense_product(1, count, s.k, side(a, from_a, s.k, 1), side(b, s.b_at(image) + first % s.n, s.n, 1), call.u,
                           s.k, y.f.data() + first, y.radius.data() + first, count);
    for (int64_t at = first; at < first + count; ++at) {
      const int64_t from_b = s.b_at(image) + at % s.n;
      if (y.floating()) {
        ProductSum sum;
        for (int64_t p = 0; p < s.k; ++p)
          sum.add(a.f[static_cast<size_t>(from_a + p)], a.r(from_a + p), b.f[static_cast<size_t>(from_b + p * s.n)],
                  b.r(from_b + p * s.n));
        y.f[static_cast<size_t>(at)] = sum.value;
        y.radius[static_cast<size_t>(at)] = sum.radius(call.u, s.k);
      } else {
        uint64_t sum = 0;
        for (int64_t p = 0; p < s.k; ++p)
          sum += static_cast<uint64_t>(a.i[static_cast<size_t>(from_a + p)]) *
                 static_cast<uint64_t>(b.i[static_cast<size_t>(from_b + p * s.n)]);
        y.i[static_cast<size_t>(at)] = wrap(y.dtype, static_cast<int64_t>(sum));
      }
    }
  });
}

void whole(RefCall& call, const Sizes& s) {
  constexpr int64_t kChunk = 96;  // rows of one task
  const int64_t chunks = (s.m + kChunk - 1) / kChunk;
  RefTensor& y = call.out[0];
  parallel_for(call.threads, s.batches * chunks, [&](int64_t begin, int64_t end) {
    while (begin < end) {  // neighbouring chunks of one image are one product: b is packed once
      const int64_t image = begin / chunks, stop = std::min(end, (image + 1) * chunks);
      const int64_t first = begin % chunks * kChunk, rows = std::min(s.m, (stop - image * chunks) * kChunk) - first;
      const int64_t to = (image * s.m + first) * s.n;
      dense_product(rows, s.n, s.k, side(*call.in[0], s.a_at(image) + first * s.k, s.k, 1),
                    side(*call.in[1], s.b_at(image), s.n, 1), call.u, s.k, y.f.data() + to, y.radius.data() + to, s.n);
      begin = stop;
    }
  });
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

// Rows of a, columns of b.
bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const Sizes s(node);
  const std::vector<int64_t> dims = concrete(*node.in(port));
  PositionSet set(span_of(dims, 0, dims.size()));
  for (int64_t p : positions) {
    const int64_t image = p / (s.m * s.n),
                  first = port == 0 ? s.a_at(image) + p / s.n % s.m * s.k : s.b_at(image) + p % s.n,
                  step = port == 0 ? 1 : s.n;
    if (s.k > 0 && !set.contains(first)) set.add_range(first, first + s.k * step, step);
  }
  set.list(needed);
  return true;
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const Dim& k = node.in(0)->type.shape->back();
  c.flops = 2 * elements_of(*node.out()) * static_cast<double>(k.is_const() ? k.value() : 1);
  return c;
}

constexpr TypeSet kTypes = kFloats | types({DType::kI32, DType::kI64, DType::kU32, DType::kU64});

double fan_in(const ir::Node&, std::span<const int64_t> w) {
  return w.empty() ? 1 : static_cast<double>(w.size() > 1 ? w[w.size() - 2] : w[0]);
}

bool any_size(const ir::Node& node) {
  const Shape &a = shape_of(node.in(0)), &b = shape_of(node.in(1)), &y = shape_of(node.out());
  if (a.size() < 2 || b.size() < 2 || !(a.back() == b[b.size() - 2])) return false;
  const std::span<const Dim> batch = std::span(y).first(y.size() - 2);
  return aligned(Shape(a.begin(), a.end() - 2), batch) && aligned(Shape(b.begin(), b.end() - 2), batch);
}

}  // namespace

extern const Entry matmul_entry;
const Entry matmul_entry{{
    {.name = "matmul",
     .onnx = "MatMul",
     .versions = {1, 9, 13},
     .inputs = {{"a", kTypes}, {"b", kTypes, false, false, 0, Role::kWeight}},
     .outputs = {{"y"}},
     .attrs = {{"equation", AttrKind::kString, false, "none: of an Einsum that it stands for"},
               {"letters", AttrKind::kString, false, "none: those of the equation whose sizes may differ"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .anchor = true,
     .fan_in = fan_in,
     .any_size = any_size,
     .samples = {"graph { input a: f32[3,5]; input b: f32[5,7]; y = matmul(a, b); output y }",
                 "graph { input a: f32[2,1,4,9]; input b: f32[3,9,5]; y = matmul(a, b); output y }",
                 "graph { input a: f32[2,13,64]; const b: f32[64,33] = seeded(0.2, 1); y = matmul(a, b); output y }",
                 "graph { input a: f32[6]; input b: f32[6]; y = matmul(a, b); output y }",
                 "graph { input a: f32[6]; input b: f32[2,6,3]; y = matmul(a, b); output y }",
                 "graph { input a: f32[2,4,6]; input b: f32[6]; y = matmul(a, b); output y }",
                 "graph { input a: f32[2,3,0]; input b: f32[0,4]; y = matmul(a, b); output y }",
                 "graph { input a: f32[0,3]; input b: f32[3,4]; y = matmul(a, b); output y }",
                 "graph { input a: f16[4,32]; input b: f16[32,8]; y = matmul(a, b); output y }",
                 "graph { input a: i32[2,3]; input b: i32[3,2]; y = matmul(a, b); output y }"}},
}};
}  // namespace peri::ops
