// The discrete Fourier transform of one line of numbers with error radii.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/entry.hpp"
#include "ops/reference/fourier.hpp"
#include "ops/reference/norm.hpp"

namespace peri::ops {

class Spectrum {
 public:
  Spectrum(int64_t n, bool inverse);
  // Real and imaginary part of each of the first `bins` bins, times `scale`, from the parts of at most n elements;
  // those beyond are zero. By the definition up to a length of 64, else by a fast transform. Thread-safe.
  std::vector<Near> of(const RefCall& call, std::span<const Near> re, std::span<const Near> im, int64_t bins,
                       double scale) const;

 private:
  void by_definition(const RefCall& call, std::span<const Near> re, std::span<const Near> im, double scale,
                     std::span<Near> out) const;

  int64_t n_;
  std::vector<double> cosines_, sines_;  // of the definition
  std::unique_ptr<Fourier> fast_;        // null: the line is short
};

}  // namespace peri::ops
