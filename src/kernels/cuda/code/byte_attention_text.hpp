// Source text of attention of bytes on tensor cores.
#pragma once

#include <cstdint>
#include <string>

namespace peri::kernels::cuda {

// The kernel peri_attention, for heads of so many bytes, multiples of 16; it follows the text of warp.hpp, the
// definitions of cuda_attention_bytes.cpp, and the chains.
std::string byte_attention_text(int64_t depth, int64_t values);

}  // namespace peri::kernels::cuda
