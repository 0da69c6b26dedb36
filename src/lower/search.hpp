// The search for a cover, by costs only: which pieces are in it and how each is done, so that times and changes of
// place are least in sum. It knows no graph, no kernel and no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace peri::lower {

constexpr int kMaxPlaces = 64;  // bits of Live::places

// One way to do a piece: its time, where it wants each input and gives each output. Place 0 is that of values which no
// piece makes.
struct Way {
  double ms = 0;
  std::vector<int> in, out;
};

// What may stand in a cover: it does the atoms named (ascending), all at the place of the last one.
struct Piece {
  std::vector<int> atoms;
  std::vector<int> inputs, outputs;  // values
  std::vector<Way> ways;             // none: the piece cannot stand
};

// Atoms are numbered in an order in which they may run; a value is made before it is read by whatever the pieces are.
struct Puzzle {
  int atoms = 0;
  int values = 0;
  std::vector<Piece> pieces;
  std::vector<bool> wanted;  // per value: whether it is needed in place 0, too
  // The cost of having value `v`, which was made in `from`, in place `to` as well: paid once for all readers.
  std::function<double(int v, int from, int to)> price;
};

struct Picked {
  size_t piece = 0, way = 0;
};
struct Solved {
  std::vector<Picked> picked;  // in the order in which they run
  double cost = 0;
};

// A cover that costs least among those that the search keeps in sight: it walks the atoms in order and keeps `width`
// beginnings, those of least cost apart by what they leave behind (where each value lies that is still to be read,
// which pieces are open). Exact as long as no more than `width` differ. None: no cover there is.
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr size_t kWidth = 256;
std::optional<Solved> solve(const Puzzle& puzzle, size_t width = kWidth);

}  // namespace peri::lower
