// Discrete Fourier transforms of any length in O(n log n) steps, in float64.
#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <vector>

namespace peri::ops {

// X[b] = sum of x[k] e^(-+ 2 pi i k b / n), without a factor. Powers of two by decimation in time (Cooley and Tukey,
// 1965), other lengths as a convolution with a chirp (Bluestein, 1970). Its error is of the order of log2(n) round-offs
// of the root of the sum of squares. run() is thread-safe.
class Fourier {
 public:
  Fourier(int64_t n, bool inverse);
  // In place. REQUIRES: n elements.
  void run(std::span<std::complex<double>> x) const;

 private:
  using Complex = std::complex<double>;
  void powers(std::span<Complex> x, bool back) const;

  int64_t size_;  // a power of two, of the convolution where it is not n
  std::vector<Complex>
      turns_;  // e^(-2 pi i k / size), k < size / 2, or its conjugate where the length is a power of two
  std::vector<Complex> chirp_, spectrum_;  // e^(-+ pi i k^2 / n), and the transform of its conjugate; empty: not needed
};

}  // namespace peri::ops
