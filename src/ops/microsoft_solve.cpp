// Solve of com.microsoft, in which Gaussian processes of scikit-learn end: the solution x of a x = y, or of its
// transposed, by Gaussian elimination with partial pivoting. `lower` says nothing of a general matrix.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "ops/reference/cost.hpp"
#include "ops/reference/norm.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape &a = c.shape(0), &y = c.shape(1);
  const auto differ = [](const Dim& p, const Dim& q) { return p.is_const() && q.is_const() && !(p == q); };
  if (a.size() != 2 || differ(a[0], a[1]))
    return invalid("a is no square matrix").expecting("[m, m]").but_found(shape_text(a));
  if (y.empty() || y.size() > 2 || differ(y[0], a[0]))
    return invalid("y is no column, or no columns, of a's length").expecting("[m] or [m, n]").but_found(shape_text(y));
  c.set(0, c.dtype(1), Shape(y));
  return Ok{};
}

// Rows `row` of a matrix as a unit lower triangle times an upper one, both in `lu`.
struct Factors {
  size_t m;
  std::vector<double> lu;
  std::vector<size_t> row;

  double at(size_t i, size_t j) const { return lu[i * m + j]; }

  std::vector<double> solve(const std::vector<double>& y) const {
    std::vector<double> x(m);
    for (size_t i = 0; i < m; ++i) {
      x[i] = y[row[i]];
      for (size_t j = 0; j < i; ++j) x[i] -= at(i, j) * x[j];
    }
    for (size_t i = m; i-- > 0;) {
      for (size_t j = i + 1; j < m; ++j) x[i] -= at(i, j) * x[j];
      x[i] /= at(i, i);
    }
    return x;
  }
};

Result<Factors> factored(std::vector<double> a, size_t m) {
  Factors f{m, std::move(a), std::vector<size_t>(m)};
  std::iota(f.row.begin(), f.row.end(), size_t{0});
  for (size_t k = 0; k < m; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < m; ++i)
      if (std::fabs(f.at(i, k)) > std::fabs(f.at(pivot, k))) pivot = i;
    if (f.at(pivot, k) == 0) return invalid("the matrix of a solve is singular");
    for (size_t j = 0; pivot != k && j < m; ++j) std::swap(f.lu[k * m + j], f.lu[pivot * m + j]);
    std::swap(f.row[k], f.row[pivot]);
    for (size_t i = k + 1; i < m; ++i) {
      const double factor = f.lu[i * m + k] /= f.at(k, k);
      for (size_t j = k + 1; j < m; ++j) f.lu[i * m + j] -= factor * f.at(k, j);
    }
  }
  return f;
}

// What an error of the matrix and of y comes to in x. Elimination is exact for a matrix that differs by at most 3 m u
// |L||U| (Higham, Accuracy and Stability of Numerical Algorithms, theorem 9.4).
class Bound {
 public:
  Bound(const Factors& f, std::vector<double> a_radius, double u) : f_(f), moved_(std::move(a_radius)), inverse_(f.lu) {
    const size_t m = f.m;
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < m; ++j) {
        double product = i <= j ? std::fabs(f.at(i, j)) : 0;
        for (size_t k = 0; k < std::min(i, j + 1); ++k) product += std::fabs(f.at(i, k)) * std::fabs(f.at(k, j));
        moved_[f.row[i] * m + j] += 3 * static_cast<double>(m) * u * product;
      }
    std::vector<double> unit(m);
    for (size_t j = 0; j < m; ++j) {
      unit.assign(m, 0);
      unit[j] = 1;
      const std::vector<double> column = f.solve(unit);
      for (size_t i = 0; i < m; ++i) inverse_[i * m + j] = std::fabs(column[i]);
    }
    std::vector<double> rows(m);
    for (size_t i = 0; i < m; ++i)
      rows[i] = std::accumulate(moved_.begin() + static_cast<std::ptrdiff_t>(i * m),
                                moved_.begin() + static_cast<std::ptrdiff_t>((i + 1) * m), 0.0);
    for (size_t i = 0; i < m; ++i) share_ = std::max(share_, row_times(i, rows));
  }

  // Of each element of x; infinite where the matrix may be singular.
  std::vector<double> radius(const std::vector<double>& x, const std::vector<double>& y_radius) const {
    std::vector<double> residual = y_radius, out(f_.m, INFINITY);
    for (size_t i = 0; i < f_.m; ++i)
      for (size_t j = 0; j < f_.m; ++j) residual[i] += moved_[i * f_.m + j] * std::fabs(x[j]);
    // The longest of the elements moves the others too, by the share that the matrix moves.
    double longest = 0;
    for (size_t i = 0; i < f_.m && share_ < 1; ++i) longest = std::max(longest, out[i] = row_times(i, residual));
    for (size_t i = 0; i < f_.m && share_ < 1; ++i) out[i] += longest * share_ / (1 - share_);
    return out;
  }

 private:
  double row_times(size_t i, const std::vector<double>& v) const {
    return std::inner_product(v.begin(), v.end(), inverse_.begin() + static_cast<std::ptrdiff_t>(i * f_.m), 0.0);
  }
  const Factors& f_;
  std::vector<double> moved_, inverse_;  // by how much elements of the matrix move; magnitudes of its inverse
  double share_ = 0;                     // of its inverse times what moves: below 1 it stays regular
};

Status reference(RefCall& call) {
  const RefTensor &a = *call.in[0], &y = *call.in[1];
  const auto m = static_cast<size_t>(a.dims[0]);
  if (a.dims[0] != a.dims[1] || y.dims[0] != a.dims[0]) return invalid("a and y of a solve have different lengths");
  const size_t columns = y.dims.size() == 2 ? static_cast<size_t>(y.dims[1]) : 1;
  const bool transposed = call.node.i("transposed", 0) != 0;
  std::vector<double> matrix(m * m), moved(m * m);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < m; ++j) {
      const size_t from = transposed ? j * m + i : i * m + j;
      matrix[i * m + j] = a.f[from];
      moved[i * m + j] = a.r(static_cast<int64_t>(from));
    }
  PERI_ASSIGN(const Factors f, factored(std::move(matrix), m));
  const bool exact = call.out[0].radius.empty();
  std::optional<Bound> bound;
  if (!exact) bound.emplace(f, std::move(moved), call.u);
  std::vector<double> column(m), radius(m);
  for (size_t n = 0; n < columns; ++n) {
    for (size_t i = 0; i < m; ++i) {
      column[i] = y.f[i * columns + n];
      radius[i] = y.r(static_cast<int64_t>(i * columns + n));
    }
    const std::vector<double> x = f.solve(column);
    if (!exact) radius = bound->radius(x, radius);
    for (size_t i = 0; i < m; ++i) store(call.out[0], static_cast<int64_t>(i * columns + n), {x[i], radius[i]});
  }
  return Ok{};
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const Dim& m = node.in(0)->type.shape->back();
  const double length = m.is_const() ? static_cast<double>(m.value()) : 1;
  c.flops = elements_of(*node.in(0)) * length * 2 / 3 + elements_of(*node.in(1)) * length * 2;
  return c;
}
}  // namespace

extern const Entry microsoft_solve_entry;
const Entry microsoft_solve_entry{{
    {.name = "solve",
     .onnx = "Solve",
     .domain = "com.microsoft",
     .versions = {1},
     .inputs = {{"a", kFloats}, {"y", kFloats}},
     .outputs = {{"x"}},
     .attrs = {{"lower", AttrKind::kInt, false, "0"}, {"transposed", AttrKind::kInt, false, "0"}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .samples = {"graph { const a: f32[2,2] = [0.0, 2.0, 4.0, 1.0]; input y: f32[2,3]; x = solve(a, y); output x }",
                 "graph { const a: f32[2,2] = [4.0, 1.0, 0.0, 2.0]; input y: f32[2]; x = solve(a, y) {transposed=1}; "
                 "output x }",
                 "graph { input a: f32[3,3]; input y: f32[3,2]; x = solve(a, y) {lower=1}; output x }",
                 "graph { input a: f64[4,4]; input y: f64[4]; x = solve(a, y); output x }",
                 "graph { input a: f32[0,0]; input y: f32[0,2]; x = solve(a, y); output x }",
                 "graph { input a: f32[2,2]; input y: f32[2,0]; x = solve(a, y); output x }"}},
}};
}  // namespace peri::ops
