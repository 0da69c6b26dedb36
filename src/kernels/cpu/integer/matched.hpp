// Matches MatMulInteger, ConvInteger, QLinearMatMul and QLinearConv with the steps after them, and holds what a run
// needs beside the two sides: zero points, factors, the steps in float32.
#pragma once

#include "kernels/cpu/integer/product.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::cpu::integer {

// The addition after rounding to bytes, whose result is rounded to bytes again.
struct Sum {
  Added added;                        // all except its pointers
  int input = -1;                     // the graph input of bytes; -1: none
  const ir::Value* column = nullptr;  // one number per column; null: none
};

// The anchor's arguments; null: omitted, or the op has none.
struct Matched {
  const ir::Value *a = nullptr, *b = nullptr, *a_zero = nullptr, *b_zero = nullptr;
  const ir::Value *a_scale = nullptr, *b_scale = nullptr, *y_scale = nullptr, *y_zero = nullptr, *bias = nullptr;
  int a_input = -1, b_input = -1;  // graph inputs
  bool a_signed = false, b_signed = false;
  To to = To::kSums;
  int32_t low = 0, high = 255;       // for To::kU8 and kI8: limits of rounded sums
  Sum sum;                           // for To::kU8 and kI8
  const ir::Value* table = nullptr;  // for To::kU8 and kI8: the final look-up; null: none
  int factor = -1;                   // To::kFloats: the graph input with one float that multiplies all sums; -1: none
  MatchedEpilogue epilogue;          // To::kFloats: the steps after that
};
// Matches an anchor named `plain` (sums) or `scaled` (bytes). After sums: a cast to float32, a factor, and an epilogue;
// after bytes: a clip, then a sum with other bytes or constants, clipped, as bytes, then a byte_table. `channel_axis`:
// the axis of the right side's columns in the result.
Result<Matched> match_bytes(const Problem& p, std::string_view plain, std::string_view scaled, size_t channel_axis);

// The part that is the same for all runs, for `n` columns whose sums have `k` products.
class Fixed {
 public:
  static Result<Fixed> make(const Problem& p, const Matched& m, int64_t n, int64_t k, const InstantiateContext& c);
  bool row_sums() const { return !b_zero_.empty(); }
  // The zero point of the left side as u8.
  int32_t a_zero(const Args& args) const;
  // Sets zero points, rounding and epilogue of the operands; `rows`: rows of the whole result are ldy apart. The
  // pointers refer to this object and `epilogue`.
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

// The bytes of a constant weight, inside the region or outside; null: not constant.
const Tensor* known(const Problem& p, const ir::Value* v, const InstantiateContext& c, Tensor* keep);
// Refuses where zero points of the weights are an input, since a plan depends on whether they are all 0.
Status check_zero_known(const Problem& p, const Matched& m);

// One offer for each tile that the target supports.
Result<std::vector<Offer>> offers_of(const Problem& p, const Target& target);

}  // namespace peri::kernels::cpu::integer
