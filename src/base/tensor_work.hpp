// Work over the bytes of large tensors, on threads that live only as long as the call. Results are those of one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.hpp"
#include "base/thread_pool.hpp"

namespace peri {

// Tensor::content_hash of each.
std::vector<uint64_t> content_hashes(std::span<const Tensor* const> tensors);

// Calls fn(k) once for each k below `count`, on several threads if all of them together read that many bytes.
void for_each_of(uint64_t bytes, size_t count, FunctionRef<void(size_t k)> fn);

// Calls fn(begin, end) for disjoint ranges that cover [0, count); a small range is processed by the caller alone.
void in_pieces(int64_t count, FunctionRef<void(int64_t begin, int64_t end)> fn);

}  // namespace peri
