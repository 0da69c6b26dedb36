// Sums of products of bytes, exact in int32: u8 rows times s8 columns, per instruction set. Plain types only: included
// by sources compiled per ISA. The right side has the same form for all of them: panels of 16 columns, in each the
// bytes of four steps of k of a column adjacent, k padded with zeros to a multiple of 64.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::integer {

constexpr int64_t kPanel = 16, kQuad = 4, kDepth = 64;
constexpr int64_t kGroup = 4;  // largest number of panels in a call of Tiles::run

struct TileArgs {
  const uint8_t* a = nullptr;  // rows of `lda` bytes
  int64_t lda = 0, rows = 0;
  const int8_t* b = nullptr;            // the first panel
  int64_t panel_bytes = 0, panels = 1;  // distance of panels; how many of them
  int64_t k = 0;                        // number of steps of k used
  int32_t* c = nullptr;                 // [rows][panels * 16], rows kGroup * kPanel apart
};

// Requirements of an instruction set on its arguments: the bytes of a row are read up to a multiple of `depth`; they
// are zeros or are multiplied by zeros of b but must be readable; rows up to a multiple of `row_multiple` are read, and
// those of c written.
struct Tiles {
  void (*run)(const TileArgs& args);
  int64_t depth, row_multiple;
};
extern const Tiles kTilesAvx2, kTilesVnni, kTilesAmx;

// Corrects sums of a' w', a' = a (+ 128 where it is signed), w' = w (- 128 where it is unsigned), to those of (a -
// a_zero) (w - b_zero): column j adds `column[j]`, row r times column j subtracts `rows[r] * b_zero[j]`.
struct Correction {
  const int32_t* column = nullptr;
  const int32_t* b_zero = nullptr;  // of w'; null: zero everywhere
  const int32_t* rows = nullptr;    // sums of a'; read where b_zero is not null
};
// What is added to rounded bytes, as numbers, before they are rounded to bytes again: other bytes in the layout of the
// result, or one number per column. y = saturate(round(clip((q - own_zero) * own_scale + other) / y_scale) + y_zero).
struct Added {
  const uint8_t* x = nullptr;
  bool x_signed = false;
  float x_zero = 0, x_scale = 0;
  const float* column = nullptr;
  int32_t own_zero = 0;
  float own_scale = 0;
  float low = 0, high = 0, y_scale = 0;
  int32_t y_zero = 0, y_low = 0, y_high = 255;
  bool any() const { return x != nullptr || column != nullptr; }
};
// Rounding to bytes: y = saturate(round((sum + bias) * factor) + zero), limited to [low, high]. In float64, where every
// step before the rounding except the product is exact, as in the reference; where float32 already decides which
// integer is nearest, in float32: there, where `quick_factor` is set, the bias is split into an integer whose sum with
// the sums is an int32, and a rest, which is added to the product. `table`: 256 bytes that map the result; null: none.
struct Rounding {
  const double* factor = nullptr;  // one per column
  const double* bias = nullptr;    // one per column
  const float* quick_factor = nullptr;
  const int32_t* quick_bias = nullptr;
  const float* quick_rest = nullptr;
  int32_t zero = 0, low = 0, high = 255;
  Added added;
  const uint8_t* table = nullptr;
};
struct Block {
  const int32_t* c = nullptr;  // rows kGroup * kPanel apart
  int64_t rows = 0, cols = 0;
  void* y = nullptr;
  int64_t ldy = 0;  // elements
};
// The taps of a depthwise convolution for one output pixel and all channels: sums of (x - x_zero) * w over `taps` rows
// of bytes. Sums stay below 2^24 and are exact in float32: REQUIRES taps <= 256.
struct Taps {
  const uint8_t* const* x = nullptr;  // [taps]; null: in the padding
  const float* w = nullptr;           // [taps][ldw]
  int64_t taps = 0, ldw = 0, channels = 0;
  float zero = 0;
  bool is_signed = false;
};
struct Loops {
  void (*sums)(const Block& block, const Correction& correction);    // y: int32
  void (*floats)(const Block& block, const Correction& correction);  // y: float32 of the sums
  void (*to_bytes)(const Block& block, const Correction& correction, const Rounding& rounding);
  void (*look_up)(const uint8_t* x, const uint8_t* table, uint8_t* y, int64_t n);  // y[i] = table[x[i]]
  void (*taps)(const Taps& taps, int32_t* y);
  void (*flip)(const uint8_t* x, uint8_t* y, int64_t n);  // y = x ^ 0x80
  int32_t (*total)(const uint8_t* x, int64_t n);
  // y[i] = max(x[i], y[i])
  void (*most_u8)(const uint8_t* x, uint8_t* y, int64_t n);
  void (*most_i8)(const int8_t* x, int8_t* y, int64_t n);
};
namespace avx2 {
extern const Loops kLoops;
}
namespace avx512 {
extern const Loops kLoops;
}

}  // namespace peri::kernels::cpu::integer
