// Single elements of a product of matrices: elements of one column share the reads of it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace peri::ops {

// One element: the start of its row in a, the start of its column in b, and its place in the result.
struct ScatteredSum {
  int64_t a = 0;
  int64_t b = 0;
  int64_t to = 0;
};

// For each element computes the sum over p < k of a[e.a + p * a_step] * b[e.b + p * b_step] and calls take(to, sum, sum
// of magnitudes), once per element, on up to `threads` threads. Results do not depend on the number of threads.
void scattered_sums(std::vector<ScatteredSum> elements, int64_t k, const double* a, int64_t a_step, const double* b,
                    int64_t b_step, int threads, const std::function<void(int64_t, double, double)>& take);

}  // namespace peri::ops
