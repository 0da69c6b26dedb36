// The loops of conv/patches.hpp, written once; included by patches_avx2.cpp and patches_avx512.cpp, which set PERI_ISA
// and include the vectors. What a tap reads of a channel is cut into strips of a vector, which are the same for every
// channel.

#include "kernels/cpu/conv/patches.hpp"

namespace peri::kernels::cpu::conv::PERI_ISA {
namespace {
using simd::PERI_ISA::F32;
constexpr int64_t kLanes = F32::kLanes;
constexpr int64_t kChannels = 8;  // at once: their rows of the image stay in L1 from tap to tap

// Columns of a panel that lie in one row of the result: `n` of them from column `at` on, the first of which has its
// first weight at depth `z`, row `y` and column `x` of the image.
struct Piece {
  int64_t at, n, z, y, x;
};

// Rows of the panel that one tap writes: `count` channels, from the first channel's image and row on.
struct Rows {
  const float* image;
  float* out;
  int64_t count, image_step, out_step, width;
};

// Writes a vector from column `at` on of every row, as far as the row goes. Columns are written in ascending order:
// what is written beyond those meant is overwritten.
template <class Load>
PERI_SIMD void write(const Rows& r, int64_t at, const Load& load) {
  const float* from = r.image;
  float* to = r.out + at;
  const int64_t room = r.width - at;
  if (room >= kLanes)
    for (int64_t c = 0; c < r.count; ++c, from += r.image_step, to += r.out_step) store(to, load(from));
  else
    for (int64_t c = 0; c < r.count; ++c, from += r.image_step, to += r.out_step) store_n(to, load(from), room);
}

void write_zeros(const Rows& r, int64_t at, int64_t end) {
  for (; at < end; at += kLanes) write(r, at, [](const float*) { return F32::zero(); });
}

// `n` values that lie `step` apart from `offset` on.
void write_strip(const Rows& r, int64_t at, int64_t offset, int64_t step, int64_t n) {
  if (step == 1) {
    if (n == kLanes) return write(r, at, [=](const float* p) { return F32::load(p + offset); });
    return write(r, at, [=](const float* p) { return F32::load_n(p + offset, n); });
  }
  const int64_t first = 2 * n - 1 < kLanes ? 2 * n - 1 : kLanes, second = 2 * n - 1 - first;
  if (step == 2)
    return write(r, at, [=](const float* p) {
      return even_lanes(F32::load_n(p + offset, first), F32::load_n(p + offset + kLanes, second));
    });
  if (n == kLanes) return write(r, at, [=](const float* p) { return F32::gather(p + offset, step); });
  write(r, at, [=](const float* p) {
    float v[kLanes];
    for (int64_t i = 0; i < n; ++i) v[i] = p[offset + i * step];
    return F32::load_n(v, n);
  });
}

// What tap `t` reads.
void write_piece(const Patches& p, const Rows& r, const Piece& piece, int64_t t) {
  const int64_t kx = t % p.kernel[2], ky = t / p.kernel[2] % p.kernel[1], kz = t / p.kernel[2] / p.kernel[1];
  const int64_t z = piece.z + kz * p.dilation[0], y = piece.y + ky * p.dilation[1], x = piece.x + kx * p.dilation[2];
  const int64_t step = p.stride[2], n = piece.n, row = p.in[2];
  if (z < 0 || z >= p.in[0] || y < 0 || y >= p.in[1]) return write_zeros(r, piece.at, piece.at + n);
  int64_t begin = 0, end = n;
  if (x < 0 || x + (n - 1) * step >= row) {
    const int64_t before = x < 0 ? (-x + step - 1) / step : 0, inside = x < row ? (row - x + step - 1) / step : 0;
    begin = before < n ? before : n;
    end = inside < begin ? begin : inside < n ? inside : n;
    write_zeros(r, piece.at, piece.at + begin);
  }
  const int64_t offset = (z * p.in[1] + y) * row + x;
  for (int64_t i = begin; i < end; i += kLanes)
    write_strip(r, piece.at + i, offset + i * step, step, end - i < kLanes ? end - i : kLanes);
  write_zeros(r, piece.at + end, piece.at + n);
}

// The pieces of a panel; returns their number.
int64_t cut(const Patches& p, int64_t column, int64_t columns, Piece* pieces) {
  int64_t count = 0, row = column / p.out[2], ox = column % p.out[2];
  for (int64_t at = 0; at < columns; ++row, ox = 0) {
    const int64_t left = columns - at, n = p.out[2] - ox < left ? p.out[2] - ox : left;
    pieces[count++] = {at, n, row / p.out[1] * p.stride[0] - p.pad[0], row % p.out[1] * p.stride[1] - p.pad[1],
                       ox * p.stride[2] - p.pad[2]};
    at += n;
  }
  return count;
}
}  // namespace

void pack_patches(const Patches& p, int64_t k0, int64_t depth, int64_t column, int64_t columns, int64_t width,
                  float* out) {
  Piece pieces[kMaxPatchWidth];
  const int64_t count = cut(p, column, columns, pieces);
  const int64_t taps = p.taps(), last = (k0 + depth + taps - 1) / taps, image = p.channel();
  for (int64_t channel = k0 / taps; channel < last; channel += kChannels)
    for (int64_t t = 0; t < taps; ++t) {
      // Rows k = c * taps + t of these channels that are wanted.
      int64_t begin = channel, end = channel + kChannels < last ? channel + kChannels : last;
      if (begin * taps + t < k0) ++begin;
      if ((end - 1) * taps + t >= k0 + depth) --end;
      if (begin >= end) continue;
      const Rows r = {
          p.x + begin * image, out + (begin * taps + t - k0) * width, end - begin, image, taps * width, width};
      for (int64_t i = 0; i < count; ++i) write_piece(p, r, pieces[i], t);
      write_zeros(r, columns, width);
    }
}

}  // namespace peri::kernels::cpu::conv::PERI_ISA
