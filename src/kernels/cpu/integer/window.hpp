// The window of bytes that an output pixel of a convolution reads, as a row of a product.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/match/conv_match.hpp"

namespace peri::kernels::cpu::integer {

// A few bytes: two moves that overlap instead of a call.
inline void copy(uint8_t* to, const uint8_t* from, int64_t n) {
  const auto ends = [&]<size_t kBytes>(std::array<uint8_t, kBytes> first) {
    std::array<uint8_t, kBytes> last;
    std::memcpy(first.data(), from, kBytes);
    std::memcpy(last.data(), from + n - kBytes, kBytes);
    std::memcpy(to, first.data(), kBytes);
    std::memcpy(to + n - kBytes, last.data(), kBytes);
  };
  if (n > 32) {
    std::memcpy(to, from, static_cast<size_t>(n));
  } else if (n >= 16) {
    ends(std::array<uint8_t, 16>{});
  } else if (n >= 8) {
    ends(std::array<uint8_t, 8>{});
  } else if (n >= 4) {
    ends(std::array<uint8_t, 4>{});
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

struct Pixel {
  int64_t image, oy, ox;
  Pixel(const ConvShape& c, int64_t at) : image(at / c.ow() / c.oh()), oy(at / c.ow() % c.oh()), ox(at % c.ow()) {}
  void next(const ConvShape& c) {
    if (++ox < c.ow()) return;
    ox = 0;
    if (++oy < c.oh()) return;
    oy = 0;
    ++image;
  }
};

// The window of one output pixel in one group: taps row by row, channels innermost. `edge`: the byte of the padding.
inline void window(const ConvShape& c, const uint8_t* x, int64_t group, const Pixel& p, uint8_t edge, uint8_t* to) {
  const int64_t each = c.ic / c.groups, left = p.ox * c.sw - c.left, top = p.oy * c.sh - c.top;
  const bool whole = c.groups == 1 && c.dw == 1;
  if (whole && left >= 0 && left + c.kw <= c.iw && top >= 0 && top + (c.kh - 1) * c.dh < c.ih) {
    const uint8_t* row = x + ((p.image * c.ih + top) * c.iw + left) * c.ic;
    for (int64_t ky = 0; ky < c.kh; ++ky, to += c.kw * each, row += c.dh * c.iw * c.ic) copy(to, row, c.kw * each);
    return;
  }
  const int64_t first = left < 0 ? (-left + c.dw - 1) / c.dw : 0,
                end = std::clamp<int64_t>((c.iw - left + c.dw - 1) / c.dw, 0, c.kw), begin = std::min(first, end);
  for (int64_t ky = 0; ky < c.kh; ++ky, to += c.kw * each) {
    const int64_t y = top + ky * c.dh;
    if (y < 0 || y >= c.ih) {
      std::memset(to, edge, static_cast<size_t>(c.kw * each));
      continue;
    }
    const uint8_t* const row = x + ((p.image * c.ih + y) * c.iw + left) * c.ic + group * each;
    std::memset(to, edge, static_cast<size_t>(begin * each));
    if (whole)
      std::memcpy(to + begin * each, row + begin * c.ic, static_cast<size_t>((end - begin) * each));
    else
      for (int64_t kx = begin; kx < end; ++kx) copy(to + kx * each, row + kx * c.dw * c.ic, each);
    std::memset(to + end * each, edge, static_cast<size_t>((c.kw - end) * each));
  }
}

}  // namespace peri::kernels::cpu::integer
