// Conversion of elements between types, as Cast defines it.
#pragma once

#include <string>

#include "ops/reference/elements.hpp"

namespace peri::ops {

struct CastRules {
  bool saturate = true;           // float8 only
  std::string round_mode = "up";  // f8e8m0 only
};

// v as a value of the floating type `t`, rounded once.
double float_cast(DType t, double v, const CastRules& rules);
// out[0] = in[0] in the type of out[0]; error for a string that is not a number.
Status cast_elements(RefCall& call, const CastRules& rules);

}  // namespace peri::ops
