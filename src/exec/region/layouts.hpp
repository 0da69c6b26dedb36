// Converts tensors to a layout and back, element by element: slow, for trials, tests and the null device.
#pragma once

#include <optional>
#include <vector>

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace peri::exec {

// Row-major tensor <-> tensor in a layout.
Result<Tensor> to_layout(const Tensor& row_major, const ir::Layout& layout);
Result<Tensor> from_layout(const Tensor& physical, const ir::Layout& layout, const std::vector<int64_t>& dims);
// Dims of the physical array of a layout.
std::vector<int64_t> physical_dims(const std::vector<int64_t>& dims, const ir::Layout& layout);
// The first element whose bits differ; none: all are equal. Bits of the last byte after the last element are ignored.
// REQUIRES: row-major tensors of one type and shape.
std::optional<int64_t> first_difference(const Tensor& a, const Tensor& b);

}  // namespace peri::exec
