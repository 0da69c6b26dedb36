// The kernels of a GPU in float16: what each computes on all that it takes.
#include "tests/tune/slow/cuda_whole.hpp"

namespace peri::tune {

TEST(CudaWholeF16, ComputesWhatItsOpsMean) { run_whole(DType::kF16); }

}  // namespace peri::tune
