// What a 3x3 convolution at stride 1 may be off by. Winograd's F(4x4, 3x3) computes 4x4 results from 6x6 inputs at
// once: each has the round-off of all of them, even one whose own window holds nothing but zeros.
#pragma once

#include <vector>

#include "ops/shape/window.hpp"

namespace peri::ops {

// Tiles of one image's results: every 4 x 4 of those that lie a dilation apart, from the first on. F(2x2, 3x3) takes
// quarters of them.
class ConvTiles {
 public:
  // REQUIRES: takes(). `in` and `out` are spatial dims.
  ConvTiles(const Window& window, std::span<const int64_t> in, std::span<const int64_t> out);
  // Whether anybody computes such a convolution by tiles: it takes four channels at least.
  static bool takes(const Window& window, DType type, int64_t group, int64_t channels);

  int64_t count() const { return axis_[0].count() * axis_[1].count(); }
  // That of a result, by its flat position in its image.
  int64_t of(int64_t at) const { return axis_[0].of(at / out_x_) * axis_[1].count() + axis_[1].of(at % out_x_); }
  // Calls f(offset) for each input of a tile, flat within one channel's image; padding is none.
  template <class F>
  void each_input(int64_t tile, F f) const {
    const int64_t y = axis_[0].first(tile / axis_[1].count()), x = axis_[1].first(tile % axis_[1].count());
    for (int64_t i = 0, at_y = y; i < kInputs; ++i, at_y += axis_[0].dilation)
      for (int64_t j = 0, at_x = x; at_y >= 0 && at_y < axis_[0].in && j < kInputs; ++j, at_x += axis_[1].dilation)
        if (at_x >= 0 && at_x < axis_[1].in) f(at_y * axis_[1].in + at_x);
  }
  // The largest |input| of a tile in each channel of an image; infinite ones and NaN count as none.
  void largest_inputs(int64_t tile, const double* image, std::span<double> by_channel) const;

 private:
  static constexpr int64_t kResults = 4, kInputs = 6;
  struct Axis {
    int64_t in = 0, out = 0, pad = 0, dilation = 1, each = 0;  // each: tiles of those a dilation apart
    int64_t count() const { return each * dilation; }
    int64_t of(int64_t at) const { return at % dilation * each + at / dilation / kResults; }
    int64_t first(int64_t tile) const { return tile / each + tile % each * kResults * dilation - pad; }
  };
  Axis axis_[2];
  int64_t out_x_;
};

// 3 * sqrt(sum of squares) of each filter [3, 3] of w. The largest inputs times these, summed over channels, stand for
// the sum of |terms| of each result of a tile, and are no less.
// Rests on: tests/ops/conv_tiles_test.cpp (WinogradStaysWithinTheRadius).
std::vector<double> filter_lengths(std::span<const double> w);

}  // namespace peri::ops
