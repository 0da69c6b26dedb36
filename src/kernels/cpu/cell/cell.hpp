// What a recurrent cell does with the sums of its gates, one row of units at a time, for each instruction set. Plain
// types only: sources by instruction set see this.
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

namespace avx2 {
void run(const Row& row);
}
namespace avx512 {
void run(const Row& row);
}

}  // namespace peri::kernels::cpu::cell
