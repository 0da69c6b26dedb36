// Source text of attention on tensor cores.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// The kernel peri_attention; it follows the text of warp.hpp, the definitions of cuda_attention_mma.cpp, and the chain
// after the attention.
std::string_view attention_text();

}  // namespace peri::kernels::cuda
