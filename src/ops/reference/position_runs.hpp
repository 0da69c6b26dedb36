// Consecutive positions of a result in one of its rows: what they share is computed once.
#pragma once

#include <algorithm>

#include "ops/entry.hpp"
#include "ops/reference/dense.hpp"
#include "ops/reference/parallel.hpp"

namespace peri::ops {

// Calls f(first, count) for the runs of consecutive positions of call.out[0] that lie in one row of `row` elements, at
// most `longest` at a time, on the call's threads.
template <class F>
void each_run(const RefCall& call, int64_t row, int64_t longest, F f) {
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end;) {
      const int64_t first = call.position(n);
      int64_t count = 1;
      while (n + count < end && count < longest && call.position(n + count) == first + count &&
             (first + count) % row != 0)
        ++count;
      f(first, count);
      n += count;
    }
  });
}

// One row of exact values times `count` adjacent columns: adds to the sums, and to the radii of such sums of `terms`
// products at round-off u. For the few columns of a run, without packing.
inline void row_product(int64_t count, int64_t k, const double* a, int64_t a_step, const double* b, int64_t b_step,
                        double u, int64_t terms, double* sums, double* radii) {
  constexpr int64_t kWide = 16;
  for (int64_t first = 0; first < count; first += kWide) {
    const int64_t n = std::min(kWide, count - first);
    double sum[kWide] = {}, magnitude[kWide] = {};
    for (int64_t p = 0; p < k; ++p) {
      const double x = a[p * a_step], size = x < 0 ? -x : x;
      const double* row = b + p * b_step + first;
      if (n == kWide) {
        for (int64_t j = 0; j < kWide; ++j) {
          sum[j] += x * row[j];
          magnitude[j] += size * (row[j] < 0 ? -row[j] : row[j]);
        }
      } else {
        for (int64_t j = 0; j < n; ++j) {
          sum[j] += x * row[j];
          magnitude[j] += size * (row[j] < 0 ? -row[j] : row[j]);
        }
      }
    }
    for (int64_t j = 0; j < n; ++j) {
      sums[first + j] += sum[j];
      radii[first + j] += sum_radius(u, terms, magnitude[j]) + steady_radius(u, terms, sum[j]);
    }
  }
}

// Runs of at least this many positions are computed by row_product() or, if the arguments have radii, as a dense
// product (reference/dense.hpp).
constexpr int64_t kDenseRun = 4;

}  // namespace peri::ops
