// What every kernel text begins with. NVRTC takes it without any header; a host compiler takes it behind definitions of
// what CUDA itself defines (threadIdx, __shared__, ...), for tests.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// Of its functions on a GPU, peri_exp2(v) is 2^v within 2^-22 of it, peri_reciprocal(v) within a unit in the last place
// and 0 below 2^-126, peri_max and peri_min give NaN where either is.
std::string_view prelude();

}  // namespace peri::kernels::cuda
