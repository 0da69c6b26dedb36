// A plan: block code bound to shapes and an instruction set. Pure data and pure functions: the loops, their tiles, the
// tasks. Tasks depend on the problem only, so results are the same for any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/block/code.hpp"
#include "kernels/block/space.hpp"
#include "kernels/cpu/block/kernels.hpp"

namespace peri::kernels::cpu::block {

// Programs and spaces are the same for every device.
using kernels::block::broadcast_strides;
using kernels::block::Code;
using kernels::block::Instruction;
using kernels::block::is_reduction;
using kernels::block::kMaxArguments;
using kernels::block::kMaxInstructions;
using kernels::block::op_row;
using kernels::block::OpRow;
using kernels::block::parse;
using kernels::block::print;
using kernels::block::Space;
using kernels::block::type_name;
using kernels::block::type_size;
using kernels::block::verify;

// The address of a slot for a tile that begins at flat position t.
enum class Place : uint8_t {
  kDense,      // argument + t: the input is dense over the whole space
  kRow,        // argument + offset of the row and column: tile within one row, inner stride 1
  kRowScalar,  // one element of the argument for the whole tile (inner stride 0, tile within one row)
  kScalar,     // the same single element of the argument for all tiles
  kConst,      // one element in `constants`
  kTile,       // scratch
  kPeriodic,   // scratch, filled once per task: the input repeats with every tile
  kOutput,     // output argument + t
  kGroup,      // scratch of one group of a chain: a scalar in all lanes, or an intermediate result
};

struct Slot {
  Place place = Place::kTile;
  Type type = Type::kF32;
  int argument = -1;   // input or output
  int64_t offset = 0;  // bytes into scratch, or index into constants
  bool scalar() const { return place == Place::kRowScalar || place == Place::kScalar || place == Place::kConst; }
};

enum class StepKind : uint8_t { kKernel, kChain, kGather, kSpread, kConvertIn, kConvertOut, kCopyOut, kReduce };

// A stage of a chain, its operands as slots.
struct ChainOp {
  StageRun run = nullptr, narrow = nullptr;
  int src[2] = {-1, -1};
  bool stores = false;    // src[0] is written
  float imm[2] = {0, 0};  // of unary stages; of others: 1 where operand k is prefetched
};

// One call over a tile. Gather and convert read the argument named by `argument`; spread fills a tile with one element.
struct Step {
  StepKind kind = StepKind::kKernel;
  Kernel kernel = nullptr;
  Convert convert = nullptr;
  Reduce reduce = nullptr;
  Op op = Op::kLoad;
  int dst = -1;
  int src[3] = {-1, -1, -1};
  int argument = -1;
  int element_bytes = 0;  // gather: of the argument's dtype
  int64_t raw = 0;        // gather of a converted dtype: scratch offset of the raw elements
  int64_t fill = 0;       // spread: elements to fill
  bool once = false;      // run for the first tile of a task only
  float imm[2] = {0, 0};
  std::vector<ChainOp> chain;
};

struct Constant {
  union {
    float f;
    int32_t i;
    int64_t l;
    uint8_t b;
  };
};

struct Plan {
  Isa isa = Isa::kAvx2;
  std::vector<int> input_bytes, output_bytes;  // element sizes
  std::vector<int64_t> dims;                   // collapsed; empty space: count == 0
  std::vector<std::vector<int64_t>> strides;   // [input][collapsed dim]
  int64_t count = 0;                           // elements in the space
  int64_t reduce_count = 1;                    // elements per reduced output
  int64_t block = 1;                           // tiles do not cross multiples of this
  int64_t tile = 1;                            // elements of a full tile
  int64_t tiles = 1;                           // total
  int64_t unit = 1;                            // tiles per task
  int64_t parts = 1;  // > 1: each reduction is divided into this many tasks, merged by finish()
  int64_t tasks = 1;
  std::vector<Slot> slots;
  std::vector<Step> steps;
  std::vector<Constant> constants;
  int64_t scratch = 0;
  int64_t tail = 0;  // scratch for the last, short group of a chain
  int reductions = 0;
  std::vector<Op> reduce_ops;
};

struct Args {
  const void* const* inputs;
  void* const* outputs;
  void* workspace;  // workspace_bytes(plan), 16-byte aligned; shared by all tasks; may be null if 0
};

// An error where shapes do not fit the program or sizes overflow. The program must be verified.
Result<Plan> make_plan(const Code& program, const Space& space, Isa isa);

int64_t task_count(const Plan& plan);
int64_t scratch_bytes(const Plan& plan);    // for each running task, 64-byte aligned
int64_t workspace_bytes(const Plan& plan);  // shared by all tasks of a run
// Tasks may run concurrently and in any order. An output may be the memory of an input that is dense over the space and
// has elements of the same size; otherwise arguments must not overlap.
void run_task(const Plan& plan, const Args& args, int64_t task, void* scratch);
// Call once after all tasks have ended (does nothing unless workspace_bytes() > 0).
void finish(const Plan& plan, const Args& args);

}  // namespace peri::kernels::cpu::block
