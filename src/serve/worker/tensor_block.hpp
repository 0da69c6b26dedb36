// Tensors in a block of memory that two processes share: each with its type and dims, then its bytes at a multiple of
// 64. What is read there is not believed: every number is held against the block.
#pragma once

#include <span>
#include <vector>

#include "base/tensor.hpp"

namespace peri::serve {

// Bytes that these tensors take.
uint64_t block_bytes(std::span<const Tensor> tensors);
// REQUIRES: `to` has block_bytes(), 64-byte aligned.
void write_block(std::span<const Tensor> tensors, std::span<std::byte> to);
// Views of the block, which `keep` owns; strings are copied. `bytes` may be changed by others meanwhile: what they
// change is values, never sizes. Errors: kInvalid.
Result<std::vector<Tensor>> read_block(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keep);

}  // namespace peri::serve
