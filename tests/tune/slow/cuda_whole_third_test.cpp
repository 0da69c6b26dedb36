// The third part of the kernels of a GPU, in float32: what each computes on all that it takes.
#include "tests/tune/slow/cuda_whole.hpp"

namespace peri::tune {

TEST(CudaWholeThird, ComputesWhatItsOpsMean) { run_whole(DType::kF32, {.part = 2, .parts = kWholeParts}); }

}  // namespace peri::tune
