// Reads MatMulInteger, ConvInteger, QLinearMatMul and QLinearConv with what stands behind them, and holds what a run of
// them needs beside its sides: zero points, factors, the steps in float32.
#pragma once

#include "kernels/cpu/integer/product.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::cpu::integer {

// What is added behind bytes, before they are bytes again.
struct Sum {
  Added added;                        // all but its pointers
  int input = -1;                     // the graph input of bytes; -1: none
  const ir::Value* column = nullptr;  // numbers, one a column; null: none
};

// The anchor's arguments; null: left out, or the op has none.
struct Matched {
  const ir::Value *a = nullptr, *b = nullptr, *a_zero = nullptr, *b_zero = nullptr;
  const ir::Value *a_scale = nullptr, *b_scale = nullptr, *y_scale = nullptr, *y_zero = nullptr, *bias = nullptr;
  int a_input = -1, b_input = -1;  // graph inputs
  bool a_signed = false, b_signed = false;
  To to = To::kSums;
  int32_t low = 0, high = 255;       // of To::kU8 and kI8: what rounded sums may be
  Sum sum;                           // of To::kU8 and kI8
  const ir::Value* table = nullptr;  // of To::kU8 and kI8: what is looked up at last; null: none
  int factor = -1;                   // To::kFloats: the graph input of one float that multiplies all sums; -1: none
  MatchedEpilogue epilogue;          // To::kFloats: the steps behind that
};
// An anchor named `plain` (sums) or `scaled` (bytes). Behind sums: a cast to float32, a factor, and an epilogue; behind
// bytes: a clip, then a sum with other bytes or constants, clipped, as bytes, then a byte_table. `channel_axis`: along
// which the right side's columns lie in the result.
Result<Matched> match_bytes(const Problem& p, std::string_view plain, std::string_view scaled, size_t channel_axis);

// What does not change from run to run, for `n` columns whose sums have `k` products.
class Fixed {
 public:
  static Result<Fixed> make(const Problem& p, const Matched& m, int64_t n, int64_t k, const InstantiateContext& c);
  bool row_sums() const { return !b_zero_.empty(); }
  // The zero point of the left side as u8.
  int32_t a_zero(const Args& args) const;
  // Zero points, rounding and epilogue of the operands; `rows`: those of the whole result lie ldy apart. What it gives
  // points into this object and `epilogue`.
  void bind(const Args& args, Operands* to, Epilogue* epilogue) const;
  const std::vector<int32_t>& b_zero() const { return b_zero_; }  // of s8; empty: zero

 private:
  Matched m_;
  Source a_zero_;
  std::vector<int32_t> b_zero_;
  std::vector<double> factor_, bias_;
  std::vector<float> quick_factor_, quick_rest_, column_;
  std::vector<int32_t> quick_bias_;
  std::vector<uint8_t> table_;
  int32_t y_zero_ = 0;
  std::vector<Tensor> constants_;
  void find_quick(int64_t k);
};

// The bytes of a weight that is constant, inside the region or outside of it; null: it is not.
const Tensor* known(const Problem& p, const ir::Value* v, const InstantiateContext& c, Tensor* keep);

// An offer for each tile that the target has.
Result<std::vector<Offer>> offers_of(const Problem& p, const Target& target);

}  // namespace peri::kernels::cpu::integer
