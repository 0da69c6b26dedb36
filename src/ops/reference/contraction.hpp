// Sums of products over named axes, in float64 with what bounds their errors, or in integers that wrap.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ops/entry.hpp"

namespace peri::ops {

// An array with a name for each axis; a name may stand there twice (a diagonal). Axes of extent 1 broadcast. Of float64
// there are up to three channels: the values, their magnitudes, and these with the radii of the inputs.
template <class T>
struct NamedArray {
  std::vector<int> names;
  std::vector<int64_t> dims;
  std::vector<std::span<const T>> channels;
  std::vector<std::vector<T>> made = {};  // what is not an operand's
  int64_t terms = 0;                      // additions one after another that lead to an element
};

// An operand of a call; magnitudes only where radii are wanted (`u` is not 0).
NamedArray<double> named_floats(const RefTensor& x, std::vector<int> names, double u);
NamedArray<uint64_t> named_integers(const RefTensor& x, std::vector<int> names);

// The sum over all axes that `output` does not name, of each channel: of more than two operands, the two first whose
// product takes the fewest multiplications, and so on. `positions`: of the result, ascending; empty: all. The other
// elements are 0.
template <class T>
NamedArray<T> contracted(std::vector<NamedArray<T>> operands, const std::vector<int>& output,
                         std::span<const int64_t> positions, int threads);

// The operations of that, a multiplication and an addition each.
double contraction_flops(std::vector<std::vector<int>> operands, const std::vector<int>& output,
                         const std::map<int, double>& extents);

}  // namespace peri::ops
