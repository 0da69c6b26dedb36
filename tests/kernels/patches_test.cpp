// Panels of patches: every value is that of the image or a zero of its padding, for any strip, any part of the rows and
// any width of a panel; nothing outside of the image is read, nothing outside of the panel written.
#include "kernels/cpu/conv/patches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "bounds.hpp"
#include "guarded.hpp"

namespace peri::kernels::cpu::conv {
namespace {

struct Image {
  Patches p;
  int64_t channels = 1;
  int64_t depth() const { return channels * p.taps(); }
};

// Row k of a position, by the definition.
float value(const Image& image, int64_t k, int64_t position) {
  const Patches& p = image.p;
  int64_t at = k / p.taps(), place = p.positions(), tap = p.taps();  // at: floats from the first on
  for (int axis = 0; axis < 3; ++axis) {
    place /= p.out[axis];
    tap /= p.kernel[axis];
    const int64_t o = position / place % p.out[axis], t = k / tap % p.kernel[axis];
    const int64_t i = o * p.stride[axis] + t * p.dilation[axis] - p.pad[axis];
    if (i < 0 || i >= p.in[axis]) return 0;
    at = at * p.in[axis] + i;
  }
  return p.x[at];
}

struct Random {
  uint64_t state;
  int64_t in(int64_t low, int64_t high) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(high - low + 1));
  }
};

Image random_image(Random& r) {
  Image image;
  Patches& p = image.p;
  image.channels = r.in(1, 20);
  for (int axis = r.in(0, 2) == 0 ? 0 : 1; axis < 3; ++axis) {
    p.kernel[axis] = r.in(1, 4);
    p.stride[axis] = r.in(1, 3);
    p.dilation[axis] = r.in(1, 3);
    p.pad[axis] = r.in(0, axis == 2 ? 7 : 3);
    p.in[axis] = r.in(1, axis == 2 && r.in(0, 1) ? 80 : 9);
    const int64_t padded = p.in[axis] + p.pad[axis] + r.in(0, 12);
    p.out[axis] = std::max<int64_t>(0, padded - p.dilation[axis] * (p.kernel[axis] - 1) - 1) / p.stride[axis] + 1;
  }
  return image;
}

std::string words(const Patches& p) {
  std::string text;
  const auto add = [&](const char* name, int64_t v) { text += name + std::to_string(v); };
  for (int axis = 0; axis < 3; ++axis) {
    add("axis ", axis);
    add(": ", p.in[axis]);
    add(" to ", p.out[axis]);
    add(" kernel ", p.kernel[axis]);
    add(" stride ", p.stride[axis]);
    add(" dilation ", p.dilation[axis]);
    add(" pad ", p.pad[axis]);
    text += "; ";
  }
  return text;
}

void check(Image image, int64_t k0, int64_t depth, int64_t column, int64_t width, PackPatches pack,
           Guarded::Side side) {
  const int64_t columns = std::min(width, image.p.positions() - column);
  const Guarded x(image.channels * image.p.channel(), side), out(depth * width, side);
  x.randomise(3);
  out.fill(std::numeric_limits<float>::quiet_NaN());
  image.p.x = x.data();
  pack(image.p, k0, depth, column, columns, width, out.data());
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t j = 0; j < width; ++j)
      ASSERT_EQ(out[k * width + j], j < columns ? value(image, k0 + k, column + j) : 0)
          << "row " << k << " column " << j;
}

TEST(Patches, AreThoseOfTheDefinition) {
  for (const Isa isa : isas_here()) {
    const PackPatches pack = isa == Isa::kAvx512 ? avx512::pack_patches : avx2::pack_patches;
    const int64_t lanes = isa == Isa::kAvx512 ? 16 : 8;
    Random r{1};
    for (int k = 0; k < 3000; ++k) {
      const Image image = random_image(r);
      const int64_t k0 = r.in(0, image.depth() - 1), depth = r.in(1, image.depth() - k0);
      const int64_t width = r.in(0, 1) ? lanes : 2 * lanes;
      const int64_t column = r.in(0, (image.p.positions() - 1) / width) * width;
      SCOPED_TRACE(testing::Message() << k << ": " << image.channels << " channels; " << words(image.p) << "rows " << k0
                                      << "+" << depth << " column " << column);
      check(image, k0, depth, column, width, pack, k % 2 ? Guarded::Side::kEnd : Guarded::Side::kBegin);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace peri::kernels::cpu::conv
