// The product of two float64 matrices with error radii: the reference of conv, matmul, gemm, einsum and attention.
#pragma once

#include <cstdint>
#include <span>

#include "ops/entry.hpp"

namespace peri::ops {

// A matrix of values with radii: element (i, j) is at i * row_step + j * column_step. No radius: exact.
struct Side {
  const double* value = nullptr;
  const double* radius = nullptr;
  int64_t row_step = 0;
  int64_t column_step = 0;
  Side at(int64_t row, int64_t column) const {
    const int64_t offset = row * row_step + column * column_step;
    return {value + offset, radius ? radius + offset : nullptr, row_step, column_step};
  }
};
inline Side side(const RefTensor& t, int64_t offset, int64_t row_step, int64_t column_step) {
  return {t.f.data() + offset, t.radius.empty() ? nullptr : t.radius.data() + offset, row_step, column_step};
}

// Error of a chain of k additions beyond sum_radius(), which assumes independent round-offs: where addends take few
// values, they round alike and errors follow the partial sums. Between powers of two all round by the same part of an
// ulp: together at most k / 2 * u * |sum| for addends of one sign. With both signs |sum| is small beside their
// magnitudes, and so is this term beside sum_radius(). Terms below the normal numbers of float32 are off by its
// smallest number, however small they are.
inline double steady_radius(double u, int64_t k, double sum) {
  return sum == 0 ? 0 : static_cast<double>(k) * (u * 0.5 * (sum < 0 ? -sum : sum) + 0x1p-149);
}

// c[m,n] += a[m,k] b[k,n], rows of c `c_step` apart. With u > 0 also c_radius += the error of such a sum of `terms`
// products at round-off u (see sum_radius, steady_radius) and the contribution of the radii of a and b. One thread.
void dense_product(int64_t m, int64_t n, int64_t k, const Side& a, const Side& b, double u, int64_t terms, double* c,
                   double* c_radius, int64_t c_step);

// Infinite and NaN values carry no radius: they must match exactly.
void settle_radii(RefTensor& t, std::span<const int64_t> positions);

// Running sum of products with its radius, for single positions.
struct ProductSum {
  double value = 0, magnitude = 0, spread = 0;
  void add(double a, double ra, double b, double rb) {
    value += a * b;
    magnitude += a * b < 0 ? -a * b : a * b;
    if (ra != 0 || rb != 0) spread += ra * (b < 0 ? -b : b) + (a < 0 ? -a : a) * rb + ra * rb;
  }
  void add_term(double v, double r) {
    value += v;
    magnitude += v < 0 ? -v : v;
    spread += r;
  }
  double radius(double u, int64_t terms) const {
    return u == 0 ? 0 : sum_radius(u, terms, magnitude) + steady_radius(u, terms, value) + spread;
  }
};

}  // namespace peri::ops
