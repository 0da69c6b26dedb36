// The element-wise part of a recurrent cell on the sums of its gates, one row of units at a time, and numbers split
// into two bytes each for products with 8-bit weights, per instruction set. Plain types only: included by sources
// compiled per ISA.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::cell {

enum class Function : uint8_t {
  kTanh,
  kSigmoid,
  kRelu,
  kAffine,
  kLeakyRelu,
  kThresholdedRelu,
  kScaledTanh,
  kHardSigmoid,
  kElu,
  kSoftsign,
  kSoftplus,
};
// With its parameters, where it has some.
struct Activation {
  Function function = Function::kTanh;
  float alpha = 0, beta = 0;
};
enum class Kind : uint8_t {
  kRnn,
  kGru,       // the reset gate scales the product with the state
  kGruGates,  // the reset gate scales the state: z and r * h,
  kGruState,  // followed by, from the product of r * h, the state
  kLstm,
};

// Units [0, n) of one sequence at one step. Gate g of unit j: pre[g * hidden + j] + product[g * width + j].
struct Row {
  Kind kind = Kind::kRnn;
  int64_t n = 0, hidden = 0, width = 0;
  const float* pre = nullptr;         // the inputs' part with biases
  const float* product = nullptr;     // the state's part
  const float* state_bias = nullptr;  // kGru: for the new state's product; null: none
  const float* peephole = nullptr;    // kLstm: [3][hidden] of i, o, f; null: none
  bool coupled = false;               // kLstm: f = 1 - i
  float clip = 0;                     // limit of sums before a function; infinite: none
  Activation functions[3] = {};
  const float* old_state = nullptr;
  float* state = nullptr;
  float* memory = nullptr;  // kLstm: c, in and out; kGruGates, kGruState: z
  float* reset = nullptr;   // kGruGates: r * h
  float* y = nullptr;       // a second copy of the state; null: none
};

// split(): a row of numbers quantised to 16 bits: x[j] = (256 high[j] + low[j] - 2^15) step, to half a step, which is
// the largest magnitude over 2^15 - 1. Returns the step; NaN where a number is not finite; 0 where all are below 1e-30.
// `high` and `low` must hold the next multiple of 16.
//
// join(): sums of such numbers times bytes: y[j] = (256 (high[j] - 2^7 columns[j]) + low[j]) step scale[j] + add[j],
// where columns are the sums of the bytes alone.
struct Joined {
  const int32_t *high = nullptr, *low = nullptr, *columns = nullptr;
  const float* scale = nullptr;
  const float* add = nullptr;  // null: nothing
  float step = 0;
  float* y = nullptr;
  int64_t n = 0;
};

namespace avx2 {
void run(const Row& row);
float split(const float* x, int64_t n, uint8_t* high, uint8_t* low);
void join(const Joined& by);
}  // namespace avx2
namespace avx512 {
void run(const Row& row);
float split(const float* x, int64_t n, uint8_t* high, uint8_t* low);
void join(const Joined& by);
}  // namespace avx512

}  // namespace peri::kernels::cpu::cell
