// The trees of a forest that are faster by their conditions alone (cuts.hpp) than step by step.
#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/machines/cuts.hpp"
#include "kernels/cpu/machines/forest.hpp"

namespace peri::kernels::cpu::machines {

struct Pieces {
  struct Tree {
    int32_t first_piece = 0, count = 0;  // none: the tree is walked
    int32_t first_leaf = 0;              // of `leaves`
    int32_t target = -1;                 // that each leaf has one vote for, `votes`; -1: leaves have others
  };
  std::vector<Tree> trees;
  std::vector<Cut> cuts;
  std::vector<Piece> pieces;
  std::vector<int32_t> leaves;    // of the forest, in the order of the trees' own
  std::vector<double> votes;      // of these, where there is one
  std::vector<int64_t> features;  // those of the columns
  Condition condition = Condition::kLeq;
  void (*find)(Condition, const Piecewise&) = nullptr;
  bool any() const { return !pieces.empty(); }
  size_t column_bytes() const { return features.size() * kRowsTogether * sizeof(float); }

  Pieces() = default;
  Pieces(Pieces&&) = default;  // a piece points into `cuts`
  Pieces& operator=(Pieces&&) = default;
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;
};

Pieces pieces_of(const Forest<float>& forest, Isa isa);

// The columns of `rows` rows of x, up to kRowsTogether; the others are zeros.
void fill_columns(const Pieces& pieces, const float* const* x, int64_t rows, float* columns);

}  // namespace peri::kernels::cpu::machines
