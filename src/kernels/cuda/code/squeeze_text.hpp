// Source text of two consecutive products of one pixel; cuda_squeeze.cpp defines the macros that it uses.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// Threads per block.
constexpr int kSqueezeThreads = 512;

std::string_view squeeze_text();

}  // namespace peri::kernels::cuda
