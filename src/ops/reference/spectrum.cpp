// Sums of products for short lines, fast transforms for the others, and bounds of what a chain of float32 errs by.
#include "ops/reference/spectrum.hpp"

#include <cmath>
#include <numbers>

#include "ops/reference/dense.hpp"

namespace peri::ops {

namespace {
constexpr int64_t kMaxByDefinition = 64;
}

Spectrum::Spectrum(int64_t n, bool inverse) : n_(n) {
  if (n > kMaxByDefinition) {
    fast_ = std::make_unique<Fourier>(n, inverse);
    return;
  }
  // e^(sign * 2 pi i k / n), with k brought below n first, so that it errs as little for a late k as for an early one.
  const double sign = inverse ? 1 : -1;
  for (int64_t k = 0; k < n; ++k) {
    const double angle = sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    // At quarters of a turn one of the two is exactly zero: pi as a number is not.
    cosines_.push_back(4 * k % n == 0 && 4 * k / n % 2 == 1 ? 0 : std::cos(angle));
    sines_.push_back(2 * k % n == 0 ? 0 : std::sin(angle));
  }
}

void Spectrum::by_definition(const RefCall& call, std::span<const Near> re, std::span<const Near> im, double scale,
                             std::span<Near> out) const {
  const auto count = static_cast<int64_t>(re.size());
  double magnitude = 0;
  for (size_t k = 0; k < re.size(); ++k) magnitude += std::fabs(re[k].v) + std::fabs(im[k].v);
  // Factors err, and a fast transform errs at every element by its share of all.
  const double own = call.u == 0 ? 0 : call.u * 8 * magnitude + sum_radius(call.u, count, magnitude);
  for (size_t bin = 0; bin < out.size() / 2; ++bin) {
    ProductSum real, imaginary;
    for (int64_t k = 0; k < count; ++k) {
      const auto turn = static_cast<size_t>(k * static_cast<int64_t>(bin) % n_);
      const double c = cosines_[turn], s = sines_[turn];
      const Near &a = re[static_cast<size_t>(k)], &b = im[static_cast<size_t>(k)];
      real.add(a.v, a.r, c, 0);
      real.add(b.v, b.r, -s, 0);
      imaginary.add(a.v, a.r, s, 0);
      imaginary.add(b.v, b.r, c, 0);
    }
    out[2 * bin] = {real.value * scale, std::fabs(scale) * (real.radius(call.u, 2 * count) + own)};
    out[2 * bin + 1] = {imaginary.value * scale, std::fabs(scale) * (imaginary.radius(call.u, 2 * count) + own)};
  }
}

std::vector<Near> Spectrum::of(const RefCall& call, std::span<const Near> re, std::span<const Near> im, int64_t bins,
                               double scale) const {
  std::vector<Near> out(static_cast<size_t>(2 * bins));
  if (!fast_) {
    by_definition(call, re, im, scale, out);
    return out;
  }
  std::vector<std::complex<double>> x(static_cast<size_t>(n_));
  ProductSum all;  // what bounds each bin: no factor is above 1
  for (size_t k = 0; k < re.size(); ++k) {
    x[k] = {re[k].v, im[k].v};
    all.add_term(std::fabs(re[k].v) + std::fabs(im[k].v), re[k].r + im[k].r);
  }
  fast_->run(x);
  const auto count = static_cast<int64_t>(re.size());
  const double own = call.u == 0 ? 0
                                 : call.u * 8 * all.magnitude + sum_radius(call.u, count, all.magnitude) +
                                       all.radius(call.u, 2 * count);
  for (size_t bin = 0; bin < static_cast<size_t>(bins); ++bin) {
    out[2 * bin] = {x[bin].real() * scale, std::fabs(scale) * own};
    out[2 * bin + 1] = {x[bin].imag() * scale, std::fabs(scale) * own};
  }
  return out;
}

}  // namespace peri::ops
