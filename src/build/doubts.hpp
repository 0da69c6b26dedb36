// The choices of a program that a measurement of the whole graph could change: of which the next best candidate is
// close.
#pragma once

#include <string>
#include <vector>

#include "lower/lower.hpp"

namespace peri::build {

// A region's chosen candidate and the next best, for all steps of that region.
struct Doubt {
  std::string name, key, chosen, next;
  double ms = 0;   // of the steps together, with the chosen candidate
  double gap = 0;  // by which share of the chosen one's time the next is slower; not below 0

  // What may be gained: the steps' time, the less the further the next candidate is behind; 0 where it is not close.
  double weight() const;
};

// Candidates whose times differ by at most this share may be ranked differently in a graph, where caches, clocks and
// neighbours differ from those in a chain.
constexpr double kClose = 0.15;

// The most doubtful first, at most `most`: by weight(), then in the program's order.
std::vector<Doubt> doubts(const std::vector<lower::StepReport>& steps, size_t most);

}  // namespace peri::build
