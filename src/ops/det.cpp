// Det: determinants of square matrices, by Gaussian elimination with partial pivoting.
#include <algorithm>
#include <cmath>

#include "ops/reference/cost.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const Shape& x = c.shape(0);
  const size_t n = x.size();
  if (n < 2 || (x[n - 1].is_const() && x[n - 2].is_const() && !(x[n - 1] == x[n - 2])))
    return invalid("x does not end in square matrices").expecting("[..., m, m]").but_found(shape_text(x));
  c.set(0, c.dtype(0), Shape(x.begin(), x.end() - 2));
  return Ok{};
}

double determinant(std::vector<double> a, size_t m) {
  double det = 1;
  for (size_t k = 0; k < m; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < m; ++i)
      if (std::fabs(a[i * m + k]) > std::fabs(a[pivot * m + k])) pivot = i;
    for (size_t j = 0; pivot != k && j < m; ++j) std::swap(a[k * m + j], a[pivot * m + j]);
    det *= pivot == k ? a[k * m + k] : -a[k * m + k];
    if (a[k * m + k] == 0) return det;  // 0, or NaN once there is one
    for (size_t i = k + 1; i < m; ++i) {
      const double factor = a[i * m + k] / a[k * m + k];
      for (size_t j = k; j < m; ++j) a[i * m + j] -= factor * a[k * m + j];
    }
  }
  return det;
}

// Hadamard: rows of length |a_i| perturbed by at most e_i change the determinant by at most prod(|a_i| + e_i) -
// prod(|a_i|). Rounding in the elimination perturbs rows by about m^2 u times the longest one.
double radius(const RefTensor& x, int64_t first, size_t m, double u) {
  std::vector<double> length(m, 0), moved(m, 0);
  double longest = 0;
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < m; ++j) {
      const int64_t at = first + static_cast<int64_t>(i * m + j);
      length[i] += x.f[static_cast<size_t>(at)] * x.f[static_cast<size_t>(at)];
      moved[i] += x.r(at) * x.r(at);
    }
    length[i] = std::sqrt(length[i]);
    moved[i] = std::sqrt(moved[i]);
    longest = std::max(longest, length[i]);
  }
  double whole = 1, difference = 0;  // prod(|a|), prod(|a| + e) - prod(|a|), without cancellation
  for (size_t i = 0; i < m; ++i) {
    const double e = moved[i] + 4 * static_cast<double>(m * m) * u * longest;
    difference = difference * (length[i] + e) + whole * e;
    whole *= length[i];
  }
  return difference;
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  const size_t m = static_cast<size_t>(x.dims.back());
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = call.position(n), first = at * static_cast<int64_t>(m * m);
      const auto from = x.f.begin() + first;
      store(call.out[0], at,
            {determinant({from, from + static_cast<std::ptrdiff_t>(m * m)}, m), radius(x, first, m, call.u)});
    }
  });
  return Ok{};
}

bool pull(const ir::Node& node, size_t, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const int64_t m = node.in(0)->type.shape->back().value();
  needed->clear();
  for (int64_t p : positions)
    for (int64_t k = 0; k < m * m; ++k) needed->push_back(p * m * m + k);
  return true;
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const Dim& m = node.in(0)->type.shape->back();
  c.flops = elements_of(*node.in(0)) * (m.is_const() ? static_cast<double>(m.value()) : 1) * 2 / 3;
  return c;
}

}  // namespace

extern const Entry det_entry;
const Entry det_entry{{
    {.name = "det",
     .onnx = "Det",
     .versions = {11, 22},
     .inputs = {{"x", kFloats}},
     .outputs = {{"y"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .samples = {"graph { input x: f32[3,3]; y = det(x); output y }",
                 "graph { input x: f32[2,3,4,4]; y = det(x); output y }",
                 "graph { input x: f16[5,2,2]; y = det(x); output y }",
                 "graph { input x: f64[2,0,0]; y = det(x); output y }",
                 "graph { const x: f32[2,2] = [1.0, 2.0, 2.0, 4.0]; y = det(x); output y }",
                 "graph { input x: f32[0,3,3]; y = det(x); output y }"}},
}};
}  // namespace peri::ops
