// Sqrt, reciprocal, exp, log, erf: NaN outside the domain, infinities at its limits as in IEEE 754. Erf of an integer
// is its float32 value truncated: 0 up to 3, then 1.
#include "ops/reference/pointwise.hpp"

namespace peri::ops {
namespace {
Status erf(RefCall& call) {
  if (call.in[0]->floating()) return float_reference<[](double x) { return std::erf(x); }, 4, 1>(call);
  const DType t = call.in[0]->dtype;
  return integer_pointwise(call,
                           [t](int64_t x) { return int_from(t, round_to(DType::kF32, std::erf(int_value(t, x)))); });
}
OpDef erf_op() {
  OpDef op = float_op("erf", "Erf", {9, 13}, erf, PERI_FLOAT_SAMPLES("erf"));
  op.inputs = {{"x", kNumbers}};
  op.samples.push_back("graph { const x: i8[6] = [0, 3, 4, -3, -4, -128]; y = erf(x); output y }");
  op.samples.push_back("graph { input x: u64[2,3]; y = erf(x); output y }");
  return op;
}
}  // namespace

extern const Entry exponential_entry;
const Entry exponential_entry{{
    float_op("sqrt", "Sqrt", {6, 13}, float_reference<[](double x) { return std::sqrt(x); }, 1>,
             PERI_FLOAT_SAMPLES("sqrt")),
    float_op("reciprocal", "Reciprocal", {6, 13}, float_reference<[](double x) { return 1 / x; }, 2>,
             PERI_FLOAT_SAMPLES("reciprocal")),
    float_op("exp", "Exp", {6, 13}, float_reference<[](double x) { return std::exp(x); }>, PERI_FLOAT_SAMPLES("exp")),
    float_op("log", "Log", {6, 13}, float_reference<[](double x) { return std::log(x); }>, PERI_FLOAT_SAMPLES("log")),
    erf_op(),
}};
}  // namespace peri::ops
