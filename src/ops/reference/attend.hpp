// Softmax-weighted sums of values with error radii: the arithmetic that the attention ops share, a block of rows at a
// time.
#pragma once

#include <functional>
#include <vector>

#include "ops/reference/dense.hpp"

namespace peri::ops {

// Scores of `rows` queries against `keys` keys, row-major, with radii (zero when u is 0).
struct Scores {
  int64_t rows = 0, keys = 0;
  std::vector<double> value, radius;
};

// scale * q kᵀ. q: rows x depth, k: keys x depth.
Scores scores_of(int64_t rows, int64_t keys, int64_t depth, const Side& q, const Side& k, double scale, double u);

// Each score becomes cap * tanh(score / cap).
void cap_scores(Scores& s, double cap, double u);

// Adds `addend` with radius `r` to score (row, key); -inf hides the key.
void add_to_score(Scores& s, int64_t row, int64_t key, double addend, double r, double u);

// Turns each row into probabilities with radii, which include the rounding to `stored` (kInvalid: none) of them or of
// the exponentials before the division by their sum. A row without a visible key becomes NaN, or zeros if
// `zero_hidden`.
void soften(Scores& s, double u, DType stored, bool zero_hidden);

}  // namespace peri::ops
