// Rows: joins requests along axis 0 and splits their responses.
#pragma once

#include <span>
#include <vector>

#include "base/tensor.hpp"

namespace peri::serve {

// A key of what must be equal in a batch: element types and dims except the first axis of every tensor.
uint64_t shape_key(std::span<const Tensor> tensors);
// One tensor for each port, with the rows of the requests concatenated. REQUIRES: all of one shape_key().
Result<std::vector<Tensor>> join_rows(std::span<const std::vector<Tensor>* const> requests);
// The tensors' rows [first, first + rows), as views that keep the whole alive. Errors: a tensor has no such rows.
Result<std::vector<Tensor>> take_rows(std::span<const Tensor> whole, int64_t total, int64_t first, int64_t rows);

}  // namespace peri::serve
