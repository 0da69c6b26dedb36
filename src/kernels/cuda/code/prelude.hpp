// The beginning of every kernel text. NVRTC compiles it without any header; a host compiler after definitions of CUDA's
// built-ins (threadIdx, __shared__, ...), for tests.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// Accuracy on a GPU: peri_exp2(v) is 2^v with a relative error of 2^-22, peri_reciprocal(v) is within one unit in the
// last place and 0 below 2^-126; sigmoid and gelu use them, but where PERI_NEAR is defined they are within one unit in
// the last place, or 2^-24 of the argument for gelu; peri_max and peri_min give NaN where either operand is;
// peri_whole(v) is an int as a double, peri_nearest(v) the int next to v, ties to even, saturated.
std::string_view prelude();

}  // namespace peri::kernels::cuda
