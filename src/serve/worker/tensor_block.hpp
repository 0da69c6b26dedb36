// Tensors in a block of memory shared by two processes: each with type and dims, and its bytes at a multiple of 64. The
// content is untrusted: every number is checked against the block.
#pragma once

#include <span>
#include <vector>

#include "base/tensor.hpp"

namespace peri::serve {

// Size of the block of these tensors, in bytes.
uint64_t block_bytes(std::span<const Tensor> tensors);
// REQUIRES: `to` has block_bytes() bytes and is 64-byte aligned.
void write_block(std::span<const Tensor> tensors, std::span<std::byte> to);
// Views of the block, which `keep` owns; strings are copied. The other process may change `bytes` concurrently, which
// affects values but not sizes. Errors: kInvalid.
Result<std::vector<Tensor>> read_block(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keep);

}  // namespace peri::serve
