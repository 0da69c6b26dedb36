// Patches of an image or a volume stored as planes, as the right side of a product: column i is position i of the
// result, row k what weight k (channel, then the kernel's depth, row and column) meets there.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::conv {

// Of one group of one image; axes: depth, height, width.
struct Patches {
  const float* x = nullptr;  // the group's first plane
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t positions() const { return out[0] * out[1] * out[2]; }
  int64_t channel() const { return in[0] * in[1] * in[2]; }  // floats
};
// Of one panel.
constexpr int64_t kMaxPatchWidth = 32;

// Rows [k0, k0 + depth) of columns [column, column + columns): row k at out + (k - k0) * width, padding and missing
// columns zero. width <= kMaxPatchWidth, whole vectors.
using PackPatches = void (*)(const Patches& p, int64_t k0, int64_t depth, int64_t column, int64_t columns,
                             int64_t width, float* out);

namespace avx2 {
void pack_patches(const Patches& p, int64_t k0, int64_t depth, int64_t column, int64_t columns, int64_t width,
                  float* out);
}
namespace avx512 {
void pack_patches(const Patches& p, int64_t k0, int64_t depth, int64_t column, int64_t columns, int64_t width,
                  float* out);
}

}  // namespace peri::kernels::cpu::conv
