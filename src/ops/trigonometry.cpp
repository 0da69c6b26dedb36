// Circular and hyperbolic functions and their inverses. Small results are allowed an absolute error: range reduction
// and differences of exponentials lose relative accuracy near zeros.
#include "ops/reference/pointwise.hpp"

namespace peri::ops {
extern const Entry trigonometry_entry;
const Entry trigonometry_entry{{
    float_op("sin", "Sin", {7, 22}, float_reference<[](double x) { return std::sin(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("sin")),
    float_op("cos", "Cos", {7, 22}, float_reference<[](double x) { return std::cos(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("cos")),
    float_op("tan", "Tan", {7, 22}, float_reference<[](double x) { return std::tan(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("tan")),
    float_op("asin", "Asin", {7, 22}, float_reference<[](double x) { return std::asin(x); }>,
             PERI_FLOAT_SAMPLES("asin")),
    float_op("acos", "Acos", {7, 22}, float_reference<[](double x) { return std::acos(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("acos")),
    float_op("atan", "Atan", {7, 22}, float_reference<[](double x) { return std::atan(x); }>,
             PERI_FLOAT_SAMPLES("atan")),
    float_op("sinh", "Sinh", {9, 22}, float_reference<[](double x) { return std::sinh(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("sinh")),
    float_op("cosh", "Cosh", {9, 22}, float_reference<[](double x) { return std::cosh(x); }>,
             PERI_FLOAT_SAMPLES("cosh")),
    float_op("tanh", "Tanh", {6, 13}, float_reference<[](double x) { return std::tanh(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("tanh")),
    float_op("asinh", "Asinh", {9, 22}, float_reference<[](double x) { return std::asinh(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("asinh")),
    float_op("acosh", "Acosh", {9, 22}, float_reference<[](double x) { return std::acosh(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("acosh")),
    float_op("atanh", "Atanh", {9, 22}, float_reference<[](double x) { return std::atanh(x); }, 4, 1>,
             PERI_FLOAT_SAMPLES("atanh")),
}};
}  // namespace peri::ops
