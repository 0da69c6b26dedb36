// The difference of two tensors in the usual norms.
#pragma once

#include <string>

#include "base/json.hpp"
#include "base/tensor.hpp"

namespace peri::judge {

struct Difference {
  int64_t count = 0;
  double l0 = 0;          // share of elements outside atol + rtol * |want|; for other than floats of those that differ
  double l1 = 0;          // mean |got - want|
  double l2 = 0;          // root of the mean square
  double linf = 0;        // largest |got - want|
  double range = 0;       // largest minus smallest finite wanted value; this and the three below: of numbers
  double largest = 0;     // |want|, of the finite ones
  double relative = 0;    // linf / range (largest |want| where the output is nearly constant)
  double cosine = 1;      // after subtracting each side's mean
  int64_t both_nan = 0;   // elements that are NaN on both sides, which count as equal here
  int64_t worst_at = -1;  // flat position of linf, or of the first element that differs
  std::string first;      // "element 7: expected 1.25, found 1.5"; empty if none is outside
};

struct Tolerance {
  double rtol = 1e-3, atol = 1e-5;
};

// NaN equals NaN, infinities equal themselves. kAccuracy if dtype or dims differ.
Result<Difference> difference(const Tensor& want, const Tensor& got, Tolerance tolerance);
// Of elements other than floats: the first that differs and how many do; "" if none does.
std::string unequal(const Difference& d);
void write_difference(JsonWriter& w, const Difference& d);  // fields of an open object

// How many elements of a tensor of a float type are NaN; 0 of others.
int64_t nan_elements(const Tensor& t);

}  // namespace peri::judge
