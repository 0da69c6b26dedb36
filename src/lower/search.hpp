// The search for a cover, by costs only: which pieces are used and in which way, such that the sum of times and changes
// of place is minimal. It knows no graph, no kernel and no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace peri::lower {

constexpr int kMaxPlaces = 64;  // bits of Live::places

// One way to run a piece: its time, and the places of its inputs and outputs. Place 0 is that of values which no piece
// produces.
struct Way {
  double ms = 0;
  std::vector<int> in, out;
};

// A possible part of a cover: it covers the given atoms (ascending), all executed at the position of the last one.
struct Piece {
  std::vector<int> atoms;
  std::vector<int> inputs, outputs;  // values
  std::vector<Way> ways;             // none: the piece cannot be used
};

// Atoms are numbered in a valid execution order; a value is produced before it is read, whatever the pieces are.
struct Puzzle {
  int atoms = 0;
  int values = 0;
  std::vector<Piece> pieces;
  std::vector<bool> wanted;  // for each value whether it is also needed in place 0
  // The cost of having value `v`, produced in `from`, in place `to` as well: paid once for all readers.
  std::function<double(int v, int from, int to)> price;
};

struct Picked {
  size_t piece = 0, way = 0;
};
struct Solved {
  std::vector<Picked> picked;  // in execution order
  double cost = 0;
};

// The cheapest cover found by beam search: it processes the atoms in order and keeps `width` partial covers, the
// cheapest ones with different states (the places of values still to be read, the open pieces). Exact as long as at
// most `width` states differ. None: there is no cover.
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr size_t kWidth = 256;
std::optional<Solved> solve(const Puzzle& puzzle, size_t width = kWidth);

}  // namespace peri::lower
