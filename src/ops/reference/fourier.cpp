// Fast transforms of powers of two, and others by three of them.
#include "ops/reference/fourier.hpp"

#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

namespace peri::ops {

namespace {
using Complex = std::complex<double>;

// e^(i pi part / whole), of 0 <= part < 2 * whole: exact at quarters of a turn.
Complex turn(int64_t part, int64_t whole) {
  const double angle = std::numbers::pi * static_cast<double>(part) / static_cast<double>(whole);
  return {2 * part == whole || 2 * part == 3 * whole ? 0 : std::cos(angle), part % whole == 0 ? 0 : std::sin(angle)};
}

// The product by its four terms: the operator of the library looks for infinities first.
Complex times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
}  // namespace

Fourier::Fourier(int64_t n, bool inverse) : size_(n) {
  const bool power = std::has_single_bit(static_cast<uint64_t>(n));
  if (!power) size_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
  for (int64_t k = 0; k < size_ / 2; ++k) {
    const Complex t = turn(2 * k, size_);
    turns_.push_back(power && inverse ? t : std::conj(t));
  }
  if (power) return;
  spectrum_.resize(static_cast<size_t>(size_));
  for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), ++k) {  // k^2, modulo 2 n
    const Complex t = turn(square, n);
    chirp_.push_back(inverse ? t : std::conj(t));
    spectrum_[static_cast<size_t>(k)] = spectrum_[static_cast<size_t>((size_ - k) % size_)] = std::conj(chirp_.back());
  }
  powers(spectrum_, false);
}

void Fourier::run(std::span<Complex> x) const {
  if (chirp_.empty()) return powers(x, false);
  std::vector<Complex> y(static_cast<size_t>(size_));
  for (size_t k = 0; k < x.size(); ++k) y[k] = times(x[k], chirp_[k]);
  powers(y, false);
  for (size_t k = 0; k < y.size(); ++k) y[k] = times(y[k], spectrum_[k]);
  powers(y, true);
  const double scale = 1 / static_cast<double>(size_);
  for (size_t k = 0; k < x.size(); ++k) x[k] = times(y[k], chirp_[k]) * scale;
}

// Of size_ elements; `back`: with the conjugate turns.
void Fourier::powers(std::span<Complex> x, bool back) const {
  const size_t n = x.size();
  for (size_t k = 1, mirrored = 0; k < n; ++k) {  // bits of the index in reverse order
    size_t bit = n >> 1;
    for (; mirrored & bit; bit >>= 1) mirrored ^= bit;
    mirrored ^= bit;
    if (k < mirrored) std::swap(x[k], x[mirrored]);
  }
  for (size_t half = 1; half < n; half *= 2) {
    const size_t step = n / 2 / half;
    for (size_t first = 0; first < n; first += 2 * half)
      for (size_t k = 0; k < half; ++k) {
        const Complex t = back ? std::conj(turns_[k * step]) : turns_[k * step];
        Complex &low = x[first + k], &high = x[first + k + half];
        const Complex moved = times(high, t);
        high = low - moved;
        low += moved;
      }
  }
}

}  // namespace peri::ops
