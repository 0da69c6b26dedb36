// What every kernel text begins with. NVRTC takes it without any header; a host compiler takes it behind definitions of
// what CUDA itself defines (threadIdx, __shared__, ...), for tests.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

std::string_view prelude();

}  // namespace peri::kernels::cuda
