// What is said where an Einsum's axes of one letter differ in size: by the Einsum, and by the matmul that stands for
// it.
#pragma once

#include <string>

#include "base/result.hpp"

namespace peri::ops {

// `letters`: one, or several of which one has sizes that differ; digits are axes under an ellipsis.
inline Error letters_differ(const std::string& letters, const std::string& equation) {
  std::string named;
  for (const char c : letters) {
    const std::string one = c >= '0' && c <= '9' ? "an axis under the ellipsis" : "letter " + std::string(1, c);
    if (named.find(one) == std::string::npos) named += (named.empty() ? "" : " or ") + one;
  }
  return invalid("the sizes of %s differ in Einsum's equation %s", named.c_str(), equation.c_str());
}

}  // namespace peri::ops
