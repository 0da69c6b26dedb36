// The text of a squeeze-and-excite block in one launch, for names that cuda_excite.cpp defines.
#pragma once

#include <cstdint>
#include <string_view>

namespace peri::kernels::cuda {

// Of a block: as many loads under way as a few kilobytes of weights and pixels take to come at once, one block a
// multiprocessor.
constexpr int64_t kExciteThreads = 512;
std::string_view excite_text();  // the kernel peri_excite

}  // namespace peri::kernels::cuda
