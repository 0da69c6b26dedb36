// Source text of a squeeze-and-excite block in one launch; cuda_excite.cpp defines the macros that it uses.
#pragma once

#include <cstdint>
#include <string_view>

namespace peri::kernels::cuda {

// Threads per block: enough concurrent loads to fetch a few kilobytes of weights and pixels at once, with one block per
// multiprocessor.
constexpr int64_t kExciteThreads = 512;
std::string_view excite_text();  // the kernel peri_excite

}  // namespace peri::kernels::cuda
