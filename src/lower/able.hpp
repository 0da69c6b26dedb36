// A part of a graph with the candidates that can run it: as offered, or as tried.
#pragma once

#include <vector>

#include "lower/cover.hpp"

namespace peri::lower {

struct Able {
  std::vector<tune::Candidate> usable;  // empty: the reference
  std::vector<tune::Refusal> refusals;
  std::vector<size_t> of_way;  // the candidate of each way of its piece
  bool stands = true;
  bool tried = false;  // not only offered
  const tune::Candidate* best() const {
    const tune::Candidate* best = nullptr;
    for (const tune::Candidate& c : usable)
      if (c.evidence.timed() && (!best || c.evidence.time_ms < best->evidence.time_ms)) best = &c;
    return best;
  }
  double best_ms() const { return best() ? best()->evidence.time_ms : -1; }
};

// Whether guesses choose a cover, since nothing is timed, and only what it is made of is tried: each trial on a device
// is code to be compiled.
bool chosen_by_guess(const Terms& terms, bool locked);
// Whether measured times choose a cover for the host alone.
bool chosen_by_time(const Terms& terms, bool locked);
// What may run the part, tried if `able->tried`, and why the others may not.
void find_able(const Terms& terms, const Part& part, Able* able);
// What may run it on the host, where the device takes it too.
std::vector<tune::Candidate> those_beside(const Terms& terms, const Part& part, std::vector<tune::Refusal>* refusals);

}  // namespace peri::lower
