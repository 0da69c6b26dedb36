// The loops of block code: one function pointer for an instruction (or a stage of a chain), chosen when the plan is
// made, run over a tile; no dispatch per element. Plain types only: included by sources compiled per ISA.
#pragma once

#include <cstdint>

#include "kernels/block/op.hpp"

namespace peri::kernels::cpu::block {

// The ops are the same for every device.
using kernels::block::kOpCount;
using kernels::block::Op;
using kernels::block::Type;

// Operands of one call. A scalar operand (see Form) is one element; `imm` as in Instruction.
struct Call {
  void* dst;
  const void* a;
  const void* b;
  const void* c;
  float imm[2];
};
using Kernel = void (*)(const Call& call, int64_t n);

// Which loop: an op on `type` operands (cast: from `type` to `to`), and which operands are scalars (bit k: operand k).
struct Key {
  Op op = Op::kLoad;
  Type type = Type::kF32;
  Type to = Type::kF32;
  int scalars = 0;
};

// Conversions between memory of a dtype and registers: n elements, no alignment required.
using Convert = void (*)(const void* from, void* to, int64_t n);

// State of a running reduction: for most ops the value in a[0]; logsumexp holds its maximum and its sum.
struct Partial {
  double a[2];
};
using Reduce = void (*)(const float* x, int64_t n, Partial* state);

// A chain of f32 ops in one pass: groups of a few vectors stay in registers and pass from stage to stage by tail calls;
// one indirect jump per stage and group. A stage's operand k is at p[k] + (offset & mask[k]), a whole group long: mask
// -1 for an array, 0 for what every group shares (a value in all lanes, or an intermediate result).
struct Stage {
  void (*run)();  // cast to the type of its instruction set
  const char* p[2];
  int64_t mask[2];
  float imm[2];
};
constexpr int kMaxStages = 96;

// The operands of a stage; x is the value in the registers, p and q are in memory.
enum class Form : uint8_t {
  kLoad,     // x = p
  kStore,    // p = x
  kEnd,      // end of the group
  kUnary,    // x = op(x)
  kBinary,   // x = op(x, p)
  kSwapped,  // x = op(p, x)
  kMulAdd,   // x = x*p + q
  kAddMul,   // x = p*q + x
};
// Bit k of `alike`: operand k is one value in all lanes, so that a single vector of it suffices.
using StageRun = void (*)();

// The loops of one instruction set.
struct Kernels {
  // Null where there is no such loop (the plan then fills tiles with scalars).
  Kernel (*find)(const Key& key);
  Convert load_f16, load_bf16, store_f16, store_bf16;
  Convert load_i8, load_u8, store_i8, store_u8;
  Reduce (*reduce)(Op op);
  // Null where there is none. Narrow stages are for the end of a tile: their groups are one vector.
  StageRun (*stage)(Form form, Op op, int alike, bool narrow);
  void (*run_chain)(const Stage* stages, int64_t groups);
  void (*run_narrow)(const Stage* stages, int64_t vectors);
  // `rows` rows of `width` floats, each filled with from[row * step]; writes up to 64 bytes beyond the last.
  void (*spread_rows)(const float* from, int64_t step, int64_t rows, int64_t width, float* to);
  int64_t group, vector;  // elements
};

namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}

// Integer and bool ops, casts, tests and selects, the same for every instruction set; null where there is none or
// key.scalars is not 0.
Kernel find_plain(const Key& key);

// The initial state of a reduction, and the merge of a later part into an earlier one.
Partial reduce_start(Op op);
void reduce_merge(Op op, Partial* into, const Partial& later);

}  // namespace peri::kernels::cpu::block
