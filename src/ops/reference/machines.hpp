// Support vector machines in the form in which they are evaluated: attributes of SVMRegressor and SVMClassifier, read
// and held against each other once.
#pragma once

#include <string>
#include <vector>

#include "ops/reference/trees.hpp"

namespace peri::ops {

enum class KernelKind { kLinear, kPoly, kRbf, kSigmoid };
struct Machine {
  KernelKind kind = KernelKind::kLinear;
  double gamma = 0, coef0 = 0, degree = 0;
  int64_t features = 0, vectors = 0;  // no vectors: one row of coefficients for each result
  std::vector<int64_t> each, first;   // of each class: support vectors, and which is its first
  int64_t classes = 0;                // of a classifier
  std::vector<double> coefficients, rho, support, prob_a, prob_b;
  std::vector<std::string> names;
  std::vector<int64_t> numbers;
  Transform transform = Transform::kNone;
  bool one_class = false, has_probabilities = false;
  int64_t pairs() const { return classes * (classes - 1) / 2; }
  // Scores of a row.
  int64_t scores() const {
    const int64_t own = vectors == 0 || has_probabilities ? classes : pairs();
    return own == 1 && classes == 2 ? 2 : own;
  }
};

// Errors: kInvalid or kUnsupported where attributes do not fit each other.
Result<Machine> read_regressor(const ir::Node& node);
Result<Machine> read_classifier(const ir::Node& node);

// Probabilities of the classes from the scores of their pairs. REQUIRES has_probabilities.
std::vector<double> probabilities_of(const Machine& m, const std::vector<double>& scores);

}  // namespace peri::ops
