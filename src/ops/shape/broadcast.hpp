// Multi-directional broadcasting of shapes (ONNX Broadcasting.md) and index arithmetic over concrete dims.
#pragma once

#include "ops/entry.hpp"

namespace peri::ops {

// Broadcast of two symbolic shapes; error if two constant dims differ and neither is 1. A symbol and a number: the
// number, where the symbol may also be 1 in a run; two expressions: the larger, as either may be 1 in a run, or 0 where
// one of them is; two sizes that the data decide, or of inputs that may be empty: one size under two names. The run
// checks that the sizes fit when it binds dimensions.
Result<Shape> broadcast(const Shape& a, const Shape& b);
Result<Shape> broadcast_all(std::span<const Shape> shapes);

// Row-major strides (in elements) of concrete dims.
std::vector<int64_t> strides_of(std::span<const int64_t> dims);
// Strides of an input for iterating over an output of `out` dims: 0 where the input is broadcast, right-aligned.
std::vector<int64_t> broadcast_strides(std::span<const int64_t> in, std::span<const int64_t> out);
// Flat position in an input for a flat position of the output.
int64_t broadcast_index(int64_t flat, std::span<const int64_t> out_dims, std::span<const int64_t> in_strides);
// Splits a flat position into coordinates.
void unravel(int64_t flat, std::span<const int64_t> dims, std::span<int64_t> coordinates);

// Axis in [-rank, rank) made non-negative; error that names the axis otherwise.
Result<int64_t> normalize_axis(int64_t axis, size_t rank);
Result<std::vector<int64_t>> normalize_axes(std::vector<int64_t> axes, size_t rank);  // sorted, unique

// Concrete dims of a value whose shape is constant. REQUIRES is_const(shape).
std::vector<int64_t> concrete(const ir::Value& v);

}  // namespace peri::ops
