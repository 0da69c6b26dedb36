// Trees over shared memory.
#include "kernels/cuda/code/rows.hpp"

#include <algorithm>
#include <bit>

namespace peri::kernels::cuda {

std::string block_text(int threads) {
  std::string out = "#define PERI_T " + std::to_string(threads) + "\n";
  const std::pair<const char*, const char*> kinds[] = {
      {"sum", "s[t] + s[t + d]"}, {"max", "peri_max(s[t], s[t + d])"}, {"min", "peri_min(s[t], s[t + d])"}};
  for (const auto& [name, join] : kinds)
    out += std::string("PERI_DEVICE float peri_block_") + name + R"((const float v, float* s) {
  const int t = threadIdx.x;
  s[t] = v;
  __syncthreads();
  for (int d = PERI_T / 2; d > 0; d /= 2) {
    if (t < d) s[t] = )" +
           join + R"(;
    __syncthreads();
  }
  const float out = s[0];
  __syncthreads();
  return out;
}
)";
  return out;
}

int row_threads(int64_t elements) {
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>((elements + 3) / 4, 32, 256))));
}

Around around(const std::vector<int64_t>& dims, size_t first, size_t last) {
  Around out;
  for (size_t k = 0; k < dims.size(); ++k) (k < first ? out.outer : k < last ? out.axis : out.inner) *= dims[k];
  return out;
}

}  // namespace peri::kernels::cuda
