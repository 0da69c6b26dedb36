// Reduction over the lanes of a warp first, then over warps through shared memory.
#include "kernels/cuda/code/rows.hpp"

#include <algorithm>
#include <bit>

namespace peri::kernels::cuda {

std::string block_text(int threads) {
  std::string out = "#define PERI_T " + std::to_string(threads) + R"(
#ifdef __CUDACC_RTC__
template <class T> PERI_DEVICE T peri_other_lane(const T v, const int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
#else
template <class T> PERI_DEVICE T peri_other_lane(const T v, const int mask) { return peri_lane_xor(v, mask); }
#endif
)";
  const std::pair<const char*, const char*> kinds[] = {
      {"sum", "v + u"}, {"max", "peri_max(v, u)"}, {"min", "peri_min(v, u)"}};
  for (const auto& [name, join] : kinds) {
    const std::string joined = std::string("v = ") + join + ";";
    out += std::string("template <class T> PERI_DEVICE T peri_block_") + name + R"((T v, T* s) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    const T u = peri_other_lane(v, d);
    )" + joined +
           R"(
  }
  if (PERI_T == 32) return v;
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  v = s[0];
#pragma unroll
  for (int k = 1; k < PERI_T / 32; ++k) {
    const T u = s[k];
    )" + joined +
           R"(
  }
  __syncthreads();
  return v;
}
)";
  }
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

namespace {
// The places of `places` counted in order, as a function of that count.
std::string walk_text(const std::string& name, const std::vector<std::pair<int64_t, int64_t>>& places,
                      Signature* signature) {
  std::string out = "PERI_DEVICE PERI_INDEX " + name + "(PERI_INDEX rest, PERI_PARAMETERS) {\n";
  std::string sum;
  for (size_t d = places.size(); d-- > 0;) {
    const auto& [size, stride] = places[d];
    const std::string coordinate = "c" + std::to_string(d), extent = d > 0 ? signature->size(size) : "";
    out +=
        "  const PERI_INDEX " + coordinate + " = rest" + (d > 0 ? " % " + extent + "; rest /= " + extent : "") + ";\n";
    sum += (sum.empty() ? "" : " + ") + coordinate + (stride == 1 ? "" : " * " + signature->size(stride));
  }
  return out + "  return " + (sum.empty() ? "0" : sum) + ";\n}\n";
}
}  // namespace

Lines lines_of(const std::vector<int64_t>& dims, const std::vector<bool>& along, Signature* signature) {
  Lines out;
  std::vector<std::pair<int64_t, int64_t>> over, kept;  // extents and strides; neighbours of one kind as one
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    auto& list = along[d] ? over : kept;
    const bool joins = d + 1 < dims.size() && along[d] == along[d + 1];
    if (joins)
      list.front().first *= dims[d];
    else
      list.insert(list.begin(), {dims[d], stride});
    (along[d] ? out.length : out.lines) *= dims[d];
    stride *= dims[d];
  }
  out.text = walk_text("peri_line", kept, signature) + walk_text("peri_step", over, signature);
  return out;
}

}  // namespace peri::kernels::cuda
