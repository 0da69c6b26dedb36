// Floor, ceil, and round (halves to even). The sign of a zero result is that of the input.
#include "ops/reference/pointwise.hpp"

namespace peri::ops {
namespace {
OpDef rounding_op(std::string_view name, std::string_view onnx, std::vector<int> versions,
                  Status (*reference)(RefCall&), std::vector<std::string_view> samples) {
  OpDef op = float_op(name, onnx, std::move(versions), reference, std::move(samples));
  op.jumps = true;
  return op;
}
}  // namespace

extern const Entry rounding_entry;
const Entry rounding_entry{{
    rounding_op("floor", "Floor", {6, 13}, float_reference<[](double x) { return std::floor(x); }, 0>,
                PERI_FLOAT_SAMPLES("floor")),
    rounding_op("ceil", "Ceil", {6, 13}, float_reference<[](double x) { return std::ceil(x); }, 0>,
                PERI_FLOAT_SAMPLES("ceil")),
    rounding_op("round", "Round", {11, 22}, float_reference<[](double x) { return std::nearbyint(x); }, 0>,
                PERI_FLOAT_SAMPLES("round")),
}};
}  // namespace peri::ops
