// Error radii of a 3x3 convolution at stride 1. Winograd's F(4x4, 3x3) computes 4x4 results from 6x6 inputs at once:
// each result has the round-off of all of them, even one whose own window holds only zeros.
#pragma once

#include <vector>

#include "ops/shape/window.hpp"

namespace peri::ops {

// Tiles of one image's results: 4 x 4 results each, a dilation apart, starting at the first. F(2x2, 3x3) takes quarters
// of them.
class ConvTiles {
 public:
  // REQUIRES: takes(). `in` and `out` are spatial dims.
  ConvTiles(const Window& window, std::span<const int64_t> in, std::span<const int64_t> out);
  // Whether such a convolution may be computed by tiles: that takes at least four channels.
  static bool takes(const Window& window, DType type, int64_t group, int64_t channels);

  int64_t count() const { return axis_[0].count() * axis_[1].count(); }
  // The tile of a result, given its flat position in its image.
  int64_t of(int64_t at) const { return axis_[0].of(at / out_x_) * axis_[1].count() + axis_[1].of(at % out_x_); }
  // Calls f(offset) for each input of a tile, flat within one channel's image; padding is skipped.
  template <class F>
  void each_input(int64_t tile, F f) const {
    const int64_t y = axis_[0].first(tile / axis_[1].count()), x = axis_[1].first(tile % axis_[1].count());
    for (int64_t i = 0, at_y = y; i < kInputs; ++i, at_y += axis_[0].dilation)
      for (int64_t j = 0, at_x = x; at_y >= 0 && at_y < axis_[0].in && j < kInputs; ++j, at_x += axis_[1].dilation)
        if (at_x >= 0 && at_x < axis_[1].in) f(at_y * axis_[1].in + at_x);
  }
  // The largest |input| of a tile in each channel of an image; infinities and NaN are ignored.
  void largest_inputs(int64_t tile, const double* image, std::span<double> by_channel) const;

 private:
  static constexpr int64_t kResults = 4, kInputs = 6;
  struct Axis {
    int64_t in = 0, out = 0, pad = 0, dilation = 1, each = 0;  // each: tiles per phase of the dilation
    int64_t count() const { return each * dilation; }
    int64_t of(int64_t at) const { return at % dilation * each + at / dilation / kResults; }
    int64_t first(int64_t tile) const { return tile / each + tile % each * kResults * dilation - pad; }
  };
  Axis axis_[2];
  int64_t out_x_;
};

// 3 * sqrt(sum of squares) of each filter [3, 3] of w. The largest inputs times these, summed over channels, are an
// upper bound of the sum of |terms| of each result of a tile.
// Rests on: tests/ops/conv_tiles_test.cpp (WinogradStaysWithinTheRadius).
std::vector<double> filter_lengths(std::span<const double> w);

}  // namespace peri::ops
