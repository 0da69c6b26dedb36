// A product of bytes divided into tasks: a block of rows is read in place or built in scratch (a window's bytes, signed
// ones offset by 128), multiplied with the packed right side, corrected for zero points and finished while it is in L1.
#pragma once

#include "base/thread_pool.hpp"
#include "kernels/cpu/gemm/epilogue.hpp"
#include "kernels/cpu/integer/tile.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels::cpu::integer {

// The tile to use; ordered like the levels of a target.
enum class Dot : uint8_t { kAvx2, kVnni, kAmx };
// Its name in configurations, and the instruction set that a target must have.
std::string_view dot_name(Dot dot);
std::string_view dot_isa(Dot dot);
// Those of the target, the fastest first; kRefused where it has none. On a machine with VNNI, AVX2's is omitted.
Result<std::vector<Dot>> dots_of(const Target& target);
// From a configuration "dot=vnni". Errors: kInvalid for an unknown name, or a dot that the target does not have.
Result<Dot> read_dot(std::string_view config, const Target& target);

// ---- the right side ------------------------------------------------------------------------------------------------
// Panels of columns, then the sum of each column.
int64_t packed_bytes(int64_t k, int64_t n);
// Bytes [k][n], rows ldb apart; `flips`: from u8, offset by 128 into s8 (by ^ 0x80).
void pack(const uint8_t* b, int64_t ldb, bool flips, int64_t k, int64_t n, std::byte* to);
// The same for panels [begin, end) of panel_count(n) alone.
int64_t panel_count(int64_t n);
void pack_panels(const uint8_t* b, int64_t ldb, bool flips, int64_t k, int64_t n, int64_t begin, int64_t end,
                 std::byte* to);
// In packed data: the distance of panels, the sums of the columns.
int64_t panel_bytes(int64_t k);
const int32_t* column_sums(const std::byte* packed, int64_t k, int64_t n);
const Tiles& tiles_of(Dot dot);

// ---- the product ---------------------------------------------------------------------------------------------------
enum class To : uint8_t { kSums, kFloats, kU8, kI8 };

struct Shape {
  int64_t images = 1, m = 0, n = 0, k = 0;  // independent products: of a batch, or of a convolution's groups
  bool makes_rows = false;                  // rows of the left side must be built; they are not contiguous in memory
  bool row_sums = false;                    // the right side's zero point is not zero in s8
  To to = To::kSums;
};
struct Plan {
  Shape shape;
  Dot dot = Dot::kAvx2;
  Isa isa{};
  int64_t rows = 0, cols = 0, row_blocks = 0, col_blocks = 0, tasks = 0;
  size_t scratch = 0;
};
Plan plan_product(const Shape& shape, Dot dot, Isa isa);

struct Operands {
  // Writes rows [row, row + rows) of an image as u8, `ld` bytes apart; bytes past k are arbitrary.
  FunctionRef<void(int64_t image, int64_t row, int64_t rows, uint8_t* to, int64_t ld)> make;
  const uint8_t* a = nullptr;  // where rows need not be built: k bytes each, contiguous
  int64_t a_step = 0;          // from image to image
  const std::byte* b = nullptr;
  int64_t b_step = 0;
  int32_t a_zero = 0;               // for u8
  const int32_t* b_zero = nullptr;  // for s8, one per column, where Shape::row_sums
  void* y = nullptr;
  int64_t ldy = 0, y_step = 0, column_step = 0;  // in elements; the first column of the epilogue for an image
  Rounding rounding;                             // for To::kU8 and kI8
  const Epilogue* epilogue = nullptr;            // for To::kFloats
};
// The rounding for the columns from `column` on, for a block whose first element is `at` elements into the result.
Rounding rounding_at(Rounding whole, int64_t column, int64_t at);
// Applies what follows a block of sums, into `block.y`: its first column and row for the epilogue, its first element.
struct Behind {
  Isa isa{};
  To to = To::kSums;
  int64_t column = 0, at = 0, row = 0;
};
void finish_block(const Behind& where, const Operands& with, const Correction& by, const Block& block);
void run_task(const Plan& plan, const Operands& with, int64_t task, std::byte* scratch);

const Loops& loops_of(Isa isa);

}  // namespace peri::kernels::cpu::integer
