// The text of two products of one pixel, one behind the other, for names that cuda_squeeze.cpp defines.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// Threads of a block.
constexpr int kSqueezeThreads = 512;

std::string_view squeeze_text();

}  // namespace peri::kernels::cuda
