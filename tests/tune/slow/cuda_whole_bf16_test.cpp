// The kernels of a GPU in bfloat16: what each computes on all that it takes.
#include "tests/tune/slow/cuda_whole.hpp"

namespace peri::tune {

TEST(CudaWholeBf16, ComputesWhatItsOpsMean) { run_whole(DType::kBF16); }

}  // namespace peri::tune
