// Positions of tiles and bounds of the magnitudes that they sum.
#include "ops/reference/conv_tiles.hpp"

#include <cmath>

namespace peri::ops {

ConvTiles::ConvTiles(const Window& window, std::span<const int64_t> in, std::span<const int64_t> out) : out_x_(out[1]) {
  for (size_t d = 0; d < 2; ++d) {
    const int64_t apart = (out[d] + window.dilation[d] - 1) / window.dilation[d];
    axis_[d] = {in[d], out[d], window.pad_begin[d], window.dilation[d], (apart + kResults - 1) / kResults};
  }
}

bool ConvTiles::takes(const Window& window, DType type, int64_t group, int64_t channels) {
  const std::vector<int64_t> three = {3, 3}, one = {1, 1};
  return type == DType::kF32 && group == 1 && channels >= 4 && window.kernel == three && window.stride == one;
}

void ConvTiles::largest_inputs(int64_t tile, const double* image, std::span<double> by_channel) const {
  const int64_t size = axis_[0].in * axis_[1].in;
  for (double& largest : by_channel) {
    largest = 0;
    each_input(tile, [&](int64_t at) {
      const double v = std::fabs(image[at]);
      if (v > largest && std::isfinite(v)) largest = v;
    });
    image += size;
  }
}

std::vector<double> filter_lengths(std::span<const double> w) {
  std::vector<double> out(w.size() / 9);
  for (size_t k = 0; k < out.size(); ++k) {
    double squares = 0;
    for (size_t tap = 0; tap < 9; ++tap) squares += w[k * 9 + tap] * w[k * 9 + tap];
    out[k] = 3 * std::sqrt(squares);
  }
  return out;
}

}  // namespace peri::ops
