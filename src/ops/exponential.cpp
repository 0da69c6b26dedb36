// Sqrt, reciprocal, exp, log, erf: NaN outside the domain, infinities at its ends as IEEE 754 has them.
#include "ops/core/pointwise.hpp"

namespace peri::ops {
extern const Entry exponential_entry;
const Entry exponential_entry{{
    float_op("sqrt", "Sqrt", {6, 13}, float_reference<[](double x) { return std::sqrt(x); }, 1>,
             PERI_FLOAT_SAMPLES("sqrt")),
    float_op("reciprocal", "Reciprocal", {6, 13}, float_reference<[](double x) { return 1 / x; }, 2>,
             PERI_FLOAT_SAMPLES("reciprocal")),
    float_op("exp", "Exp", {6, 13}, float_reference<[](double x) { return std::exp(x); }>, PERI_FLOAT_SAMPLES("exp")),
    float_op("log", "Log", {6, 13}, float_reference<[](double x) { return std::log(x); }>, PERI_FLOAT_SAMPLES("log")),
    float_op("erf", "Erf", {9, 13}, float_reference<[](double x) { return std::erf(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("erf")),
}};
}  // namespace peri::ops
