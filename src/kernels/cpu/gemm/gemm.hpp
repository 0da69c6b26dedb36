// c = epilogue(a * b) in float32, batched, divided into tasks that may run on any threads in any order. A plan is plain
// data and a function of the problem alone; the bits of a result do not even depend on the plan (see tile.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "base/thread_pool.hpp"
#include "kernels/cpu/gemm/epilogue.hpp"
#include "kernels/cpu/gemm/sweep.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu {

// Storage of b.
enum class BForm : uint8_t {
  kPacked,      // by pack_b, once, for a constant
  kRowMajor,    // [k, n], rows ldb apart: packed by each task on the fly
  kTransposed,  // [n, k], rows ldb apart: the same
  kMade,        // not stored: each task has its panels made by GemmArgs::make
};

// batch products of m x k by k x n. The batch is two nested loops, so that heads of attention need no transpose:
// product i has outer index i / batch_inner and inner index i % batch_inner.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1, batch_inner = 1;
  BForm b_form = BForm::kPacked;
};

struct GemmPlan {
  GemmShape shape;
  Isa isa = Isa::kAvx2;
  PanelSplit panels;
  int64_t m_blocks = 0;   // per product; block i is part_begin(m, m_blocks, i)
  int64_t n_blocks = 0;   // per product, divided at panels
  int64_t k_block = 0;    // depth of a block of k
  int64_t tile_rows = 0;  // largest number of rows of a tile
  int64_t tasks = 0;
  int64_t scratch_floats = 0;  // per running task, 64-byte aligned
};

// Rows [k0, k0 + depth) of `columns` columns of one product's b, to be written `width` floats apart, missing columns
// zero.
struct MadePanel {
  int64_t outer = 0, inner = 0;  // of the batch
  int64_t k0 = 0, depth = 0, column = 0, columns = 0, width = 0;
};
using MakePanel = FunctionRef<void(const MadePanel& panel, float* out)>;

// One product's pointers; strides in floats. Outputs must not overlap inputs, except that a residual may be c itself.
struct GemmArgs {
  const float* a = nullptr;  // row r at a + r * lda, its k floats contiguous
  int64_t lda = 0, a_outer = 0, a_inner = 0;
  const float* b = nullptr;  // packed, or as BForm says; batch strides apply to all forms
  int64_t ldb = 0, b_outer = 0, b_inner = 0;
  const MakePanel* make = nullptr;  // for kMade, in place of b
  float* c = nullptr;
  int64_t ldc = 0, c_outer = 0, c_inner = 0;
  Epilogue epilogue;
};

// m, n >= 1, k >= 0 (k = 0 gives the epilogue of zero), batch >= 0.
GemmPlan plan_gemm(const GemmShape& shape, Isa isa, Cut cut = {}, int threads = 1);
std::string plan_text(const GemmPlan& plan);

// Packed form of one k x n matrix: depends on k, n and the Isa only, so that it is valid for every m.
int64_t packed_b_floats(int64_t k, int64_t n, Isa isa);
// `b` is [k, n] (or [n, k] if transposed) with rows ldb apart; writes packed_b_floats(k, n, isa) floats at 64-byte
// aligned `packed`.
void pack_b(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n, Isa isa, float* packed);

// Runs one of plan.tasks. `scratch` is private to the running task. Thread-safe; needs a CPU that has plan.isa.
void run_task(const GemmPlan& plan, const GemmArgs& args, int64_t task, float* scratch);

}  // namespace peri::kernels::cpu
