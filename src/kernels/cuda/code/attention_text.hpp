// Attention on tensor cores as text.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// The kernel peri_attention behind the text of warp.hpp, what cuda_attention_mma.cpp defines for it, and the chain
// behind it.
std::string_view attention_text();

}  // namespace peri::kernels::cuda
