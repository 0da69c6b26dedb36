// Fourier transforms of known length as products with constant matrices: one product, or two with a turn between them.
#pragma once

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// A matrix of a transform has at most so many elements: 16 MiB.
constexpr int64_t kMaxFourierWeights = int64_t{1} << 22;

// What element k, part `from` (0 real, 1 imaginary) adds to bin `bin`, part `to`, in a transform of length n; exact
// where it is a whole number. The inverse is not divided by n.
double fourier_factor(int64_t k, int64_t bin, int64_t n, bool inverse, int64_t from, int64_t to);

// The transform of lines [in, width]: width 1 is real, 2 complex. Lines are cut to `length` or end in zeros; the first
// `bins` bins are wanted. An inverse is divided by the length.
struct Fourier {
  int64_t in = 0, width = 1, length = 0, bins = 0;
  bool inverse = false;
  int64_t weights() const { return in * width * bins * 2; }  // of the matrix of one product
};

// How length = first * second is divided, where two products with matrices of these lengths are better than one with
// its matrix; `lines`: how many are transformed, 1 where that is not known. None: one product.
struct TwoSteps {
  int64_t first = 0, second = 0;
};
std::optional<TwoSteps> in_two_steps(const Fourier& f, int64_t lines);

// The first bins [..., in, 2] of the spectrum of a real signal, of which the others mirror them -> the signal
// [..., length, 1], in the shape `y`; bins that are not held are zero. One product.
Result<ir::Value*> real_signal(Rewriter& w, int64_t in, int64_t length, ir::Value* x, const Shape& y,
                               const ir::Value* like);
// Where it is less work to write the other bins and to transform them all in two steps; in == length / 2 + 1.
std::optional<TwoSteps> signal_in_two_steps(int64_t in, int64_t length, int64_t lines);
Result<ir::Value*> real_signal_in_two_steps(Rewriter& w, int64_t length, const TwoSteps& s, ir::Value* x,
                                            const Shape& y, const ir::Value* like);

// x [..., in, width] -> [..., bins, 2], in the shape `y`.
Result<ir::Value*> one_product(Rewriter& w, const Fourier& f, ir::Value* x, const Shape& y, const ir::Value* like);
// The same by the decomposition of J. W. Cooley and J. W. Tukey, An Algorithm for the Machine Calculation of Complex
// Fourier Series, 1965; in == length.
Result<ir::Value*> two_products(Rewriter& w, const Fourier& f, const TwoSteps& s, ir::Value* x, const Shape& y,
                                const ir::Value* like);

}  // namespace peri::passes
