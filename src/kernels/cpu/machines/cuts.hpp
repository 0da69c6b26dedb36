// Trees by their conditions alone: each that fails takes the leaves behind its holding away, and what is left first is
// the leaf that the row ends at. No step waits for another. Plain types only: included by sources compiled per ISA.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::machines {

constexpr int64_t kRowsTogether = 64;  // that share each load of a condition: four vectors of AVX-512. Not varied
constexpr int64_t kPieceLeaves = 32;   // as many as a lane has bits

enum class Condition : uint8_t { kLeq, kLess, kGeq, kGreater, kEqual, kOther };

struct Cut {
  float split;
  int32_t column;  // where the feature's kRowsTogether values begin
  int32_t keep;    // a bit for each leaf that is left where the condition fails
};
// Adjacent leaves of a tree; first the conditions that hold for NaN.
struct Piece {
  const Cut* cuts;
  int32_t missing, count;
};
struct Piecewise {
  const Piece* pieces;  // of one tree
  int64_t count;
  const float* columns;  // [feature][kRowsTogether], 64-byte aligned
  int64_t rows;          // 1 to kRowsTogether
  int32_t* leaf;         // kRowsTogether: of each row, by its place in the tree
};

namespace avx2 {
void find_leaves(Condition condition, const Piecewise& tree);
}
namespace avx512 {
void find_leaves(Condition condition, const Piecewise& tree);
}

}  // namespace peri::kernels::cpu::machines
