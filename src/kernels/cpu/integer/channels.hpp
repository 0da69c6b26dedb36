// Depthwise convolutions of bytes by rows of pixels, with VNNI: the operands of an image's rows are built once, four
// rows as one operand, and used for every tap of a kernel's row. Exact in int32.
#pragma once

#include "kernels/cpu/integer/product.hpp"

namespace peri::kernels::cpu::integer {

constexpr int64_t kRowOfSums = kGroup * kPanel;  // channels processed together

// A part of a row of pixels, at most kRowOfSums channels. Rows are u8 after flipping.
struct ChannelArgs {
  const uint8_t* const* rows = nullptr;  // [kh] at x = 0 and the first channel; null: in the padding
  int64_t kh = 0, kw = 0, quads = 0, dw = 1, sw = 1;
  int64_t width = 0, step = 0;   // of a row: pixels, and bytes from one to the next
  int64_t first = 0, count = 0;  // the columns to read; `first` may be in the padding
  int64_t pixels = 0, channels = 0;
  uint8_t edge = 0, flip = 0;      // the padding value before flipping; 0x80 for signed bytes
  const int8_t* w = nullptr;       // [kw][quads][kRowOfSums][kQuad]
  const int32_t* zeros = nullptr;  // of w, one per channel; null: zero everywhere
  int32_t* columns = nullptr;      // [count][quads][kRowOfSums]
  int32_t* c = nullptr;            // [pixels][kRowOfSums]
};
namespace avx512vnni {
void run_channels(const ChannelArgs& args);
}

struct ChannelShape {
  int64_t n = 0, channels = 0, ih = 0, iw = 0, oh = 0, ow = 0, kh = 0, kw = 0, sh = 1, sw = 1, dh = 1, dw = 1, top = 0,
          left = 0;
  bool is_signed = false, zeros = false;  // of the image; whether zero points of weights are not zero
  To to = To::kSums;
};
class ChannelPlan {
 public:
  ChannelPlan(const ChannelShape& shape, Isa isa);
  int64_t packed_bytes() const;
  // From [channels][kh][kw]; `flips`: from u8, offset by 128 into s8.
  void pack(const uint8_t* w, bool flips, std::byte* to) const;
  int64_t tasks() const { return s_.n * s_.oh * parts_; }
  size_t scratch() const;
  // `with` holds the packed weights, zero points and the steps after the sums; its ldy is the number of channels.
  void run(const Operands& with, const uint8_t* x, int64_t task, std::byte* scratch) const;

 private:
  ChannelShape s_;
  Isa isa_;
  int64_t quads_, groups_, parts_, most_columns_;
  int64_t group_bytes() const { return s_.kw * quads_ * kRowOfSums * kQuad; }
  void run_group(const Operands& with, ChannelArgs& part, int64_t row, int64_t group) const;
};

}  // namespace peri::kernels::cpu::integer
