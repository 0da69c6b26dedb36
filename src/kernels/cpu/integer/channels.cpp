// Packing and tasks.
#include "kernels/cpu/integer/channels.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace peri::kernels::cpu::integer {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
constexpr int64_t kWantedTasks = 24;
constexpr int64_t kPart = 32;  // pixels of a row at once: their columns and sums stay in L1
int64_t up(int64_t v, int64_t to) { return (v + to - 1) / to; }
}  // namespace

ChannelPlan::ChannelPlan(const ChannelShape& shape, Isa isa)
    : s_(shape), isa_(isa), quads_(up(s_.kh, kQuad)), groups_(up(s_.channels, kRowOfSums)) {
  parts_ = std::clamp<int64_t>(kWantedTasks / std::max<int64_t>(1, s_.n * s_.oh), 1, groups_);
  most_columns_ = (std::min(kPart, s_.ow) - 1) * s_.sw + (s_.kw - 1) * s_.dw + 1;
}

int64_t ChannelPlan::packed_bytes() const {
  return groups_ * (group_bytes() + kRowOfSums * static_cast<int64_t>(sizeof(int32_t)));
}

void ChannelPlan::pack(const uint8_t* w, bool flips, std::byte* to) const {
  auto* const bytes = reinterpret_cast<int8_t*>(to);
  auto* const sums = reinterpret_cast<int32_t*>(to + groups_ * group_bytes());
  std::fill_n(bytes, groups_ * group_bytes(), int8_t{0});
  std::fill_n(sums, groups_ * kRowOfSums, 0);
  for (int64_t j = 0; j < s_.channels; ++j)
    for (int64_t ky = 0; ky < s_.kh; ++ky)
      for (int64_t kx = 0; kx < s_.kw; ++kx) {
        const auto byte = static_cast<int8_t>(w[(j * s_.kh + ky) * s_.kw + kx] ^ (flips ? 0x80 : 0));
        const int64_t row = (j / kRowOfSums * s_.kw + kx) * quads_ + ky / kQuad;
        bytes[(row * kRowOfSums + j % kRowOfSums) * kQuad + ky % kQuad] = byte;
        sums[j] += byte;
      }
}

size_t ChannelPlan::scratch() const {
  return static_cast<size_t>((most_columns_ * quads_ + kPart + 1) * kRowOfSums) * sizeof(int32_t) +
         static_cast<size_t>(s_.kh) * sizeof(uint8_t*);
}

void ChannelPlan::run_group(const Operands& with, ChannelArgs& part, int64_t row, int64_t group) const {
  const int64_t first = group * kRowOfSums, taps = s_.kh * s_.kw;
  const auto* const sums = reinterpret_cast<const int32_t*>(with.b + groups_ * group_bytes()) + first;
  part.channels = std::min(kRowOfSums, s_.channels - first);
  part.w = reinterpret_cast<const int8_t*>(with.b) + group * group_bytes();
  part.zeros = s_.zeros ? with.b_zero + first : nullptr;
  std::array<int32_t, kRowOfSums> column;
  for (int64_t j = 0; j < part.channels; ++j)
    column[static_cast<size_t>(j)] =
        with.a_zero * ((part.zeros ? static_cast<int32_t>(taps) * part.zeros[j] : 0) - sums[j]);
  const int64_t size = s_.to == To::kSums || s_.to == To::kFloats ? 4 : 1;
  for (int64_t ox = 0; ox < s_.ow; ox += kPart) {
    part.pixels = std::min(kPart, s_.ow - ox);
    part.first = ox * s_.sw - s_.left;
    part.count = (part.pixels - 1) * s_.sw + (s_.kw - 1) * s_.dw + 1;
    avx512vnni::run_channels(part);
    const int64_t pixel = row * s_.ow + ox, at = pixel * with.ldy + first;
    finish_block({isa_, s_.to, first, at, pixel}, with, {.column = column.data()},
                 {part.c, part.pixels, part.channels, static_cast<std::byte*>(with.y) + at * size, with.ldy});
  }
}

void ChannelPlan::run(const Operands& with, const uint8_t* x, int64_t task, std::byte* scratch) const {
  const int64_t row = task / parts_, part = task % parts_, image = row / s_.oh, top = row % s_.oh * s_.sh - s_.top;
  ChannelArgs g;
  g.columns = reinterpret_cast<int32_t*>(scratch);
  g.c = g.columns + most_columns_ * quads_ * kRowOfSums;
  auto** const rows = reinterpret_cast<const uint8_t**>(g.c + kPart * kRowOfSums);
  g.rows = rows;
  g.kh = s_.kh;
  g.kw = s_.kw;
  g.quads = quads_;
  g.dw = s_.dw;
  g.sw = s_.sw;
  g.width = s_.iw;
  g.step = s_.channels;
  g.flip = s_.is_signed ? 0x80 : 0;
  g.edge = static_cast<uint8_t>(with.a_zero ^ g.flip);
  for (int64_t group = part * groups_ / parts_; group < (part + 1) * groups_ / parts_; ++group) {
    for (int64_t ky = 0; ky < s_.kh; ++ky) {
      const int64_t y = top + ky * s_.dh;
      rows[ky] = y < 0 || y >= s_.ih ? nullptr : x + (image * s_.ih + y) * s_.iw * s_.channels + group * kRowOfSums;
    }
    run_group(with, g, row, group);
  }
}

}  // namespace peri::kernels::cpu::integer
