// What a recurrent cell does with the sums of its gates, one row of units at a time, and numbers as two bytes each for
// products with weights of a byte, for each instruction set. Plain types only: sources by instruction set see this.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::cell {

enum class Function : uint8_t { kTanh, kSigmoid, kRelu };
enum class Kind : uint8_t {
  kRnn,
  kGru,       // the reset gate scales the product of the state
  kGruGates,  // the reset gate scales the state: z and r * h,
  kGruState,  // and then, from the product of r * h, the state
  kLstm,
};

// Units [0, n) of one sequence at one step. Gate g of unit j: pre[g * hidden + j] + product[g * width + j].
struct Row {
  Kind kind = Kind::kRnn;
  int64_t n = 0, hidden = 0, width = 0;
  const float* pre = nullptr;         // inputs' part with biases
  const float* product = nullptr;     // the state's part
  const float* state_bias = nullptr;  // kGru: of the new state's product; null: none
  const float* peephole = nullptr;    // kLstm: [3][hidden] of i, o, f; null: none
  bool coupled = false;               // kLstm: f = 1 - i
  float clip = 0;                     // of sums before a function; infinite: none
  Function functions[3] = {};
  const float* old_state = nullptr;
  float* state = nullptr;
  float* memory = nullptr;  // kLstm: c, in and out; kGruGates, kGruState: z
  float* reset = nullptr;   // kGruGates: r * h
  float* y = nullptr;       // the state once more; null: not wanted
};

// split(): a row of numbers as whole ones of 16 bits: x[j] = (256 high[j] + low[j] - 2^15) step, to half a step, which
// is the largest of them over 2^15 - 1. Gives the step; NaN where a number is not finite; 0 where all are below 1e-30.
// `high` and `low` have room for a multiple of 16.
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
