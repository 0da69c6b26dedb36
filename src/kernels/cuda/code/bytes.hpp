// Products and convolutions of bytes (matmul_integer, conv_integer, qlinear_matmul, qlinear_conv): their arguments, and
// what becomes of an exact sum.
#pragma once

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

constexpr int64_t kMaxByteProducts = 32768;  // 255 * 255 each: their sum is an int32, to be scaled as it is

// The arguments of such a node; null: omitted, or the op has none.
struct Bytes {
  const ir::Node* node = nullptr;
  const ir::Value *a = nullptr, *b = nullptr, *a_zero = nullptr, *b_zero = nullptr;
  const ir::Value *a_scale = nullptr, *b_scale = nullptr, *y_scale = nullptr, *y_zero = nullptr, *bias = nullptr;
  bool conv = false, scaled = false;
};
// Refuses other ops and types, and scales or zero points for each row of the left side.
Result<Bytes> read_bytes(const ir::Node& node);

// " - " the zero point as an int, for column or output channel `at` of so many; "" where there is none or all are 0.
Result<std::string> zero_text(const Problem& problem, const ir::Value* zero, const std::string& at, int64_t columns,
                              Signature* signature);
// How an exact sum is rounded: with its bias it is multiplied by a factor in float64, as the reference does, rounded to
// even, with the zero point, saturated; or nothing of it where the op gives sums.
struct Rounding {
  std::string factor, bias = "0.0", zero;  // expressions of `column`: doubles, and an int; empty: a sum
  int low = 0;                             // of the type
  // A byte_table that alone reads the op's bytes, and the text of what it makes of the int `v`.
  const ir::Node* table = nullptr;
  std::string looked_up = "v";
  // int peri_rounded(int sum, double bias, double factor, PERI_PARAMETERS), or of another name.
  std::string text(const std::string& name = "peri_rounded") const;
  std::string factor_or_none() const { return factor.empty() ? "0.0" : factor; }
};
// `packed`: of the instance, to which it may add.
Result<Rounding> read_rounding(const Problem& problem, const Bytes& bytes, int64_t columns, Signature* signature,
                               std::vector<PackedWeight>* packed);
// A zero point as an int's expression; texts that differ in a constant one alone are the same.
Result<std::string> zero_point_text(const Problem& problem, const ir::Value& zero, Signature* signature);

}  // namespace peri::kernels::cuda
