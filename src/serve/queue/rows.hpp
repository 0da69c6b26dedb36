// Rows: joins requests along axis 0 and splits their responses.
#pragma once

#include <span>
#include <vector>

#include "base/tensor.hpp"

namespace peri::serve {

// What a request may be batched by: element types and dims but the first axis of every tensor.
uint64_t shape_key(std::span<const Tensor> tensors);
// One tensor for each port, rows of the requests below each other. REQUIRES: all of one shape_key().
Result<std::vector<Tensor>> join_rows(std::span<const std::vector<Tensor>* const> requests);
// The tensors' rows [first, first + rows), as views that keep the whole alive. Errors: a tensor has no such rows.
Result<std::vector<Tensor>> take_rows(std::span<const Tensor> whole, int64_t total, int64_t first, int64_t rows);

}  // namespace peri::serve
