// A part of a graph with the candidates that can run it: as offered, or after their trials.
#pragma once

#include <vector>

#include "lower/cover.hpp"

namespace peri::lower {

struct Able {
  std::vector<tune::Candidate> usable;  // empty: the reference
  std::vector<tune::Refusal> refusals;
  std::vector<size_t> of_way;  // for each way of its piece the index of its candidate
  bool stands = true;
  bool tried = false;  // true: tried; false: only offered
  const tune::Candidate* best() const {
    const tune::Candidate* best = nullptr;
    for (const tune::Candidate& c : usable)
      if (c.evidence.timed() && (!best || c.evidence.time_ms < best->evidence.time_ms)) best = &c;
    return best;
  }
  double best_ms() const { return best() ? best()->evidence.time_ms : -1; }
};

// Whether a cover is chosen by estimates, since nothing is timed, and only the chosen candidates are tried: each trial
// on a device compiles code.
bool chosen_by_guess(const Terms& terms, bool locked);
// Whether a cover is chosen by measured times for the host alone.
bool chosen_by_time(const Terms& terms, bool locked);
// Finds the candidates for the part, tried if `able->tried`, and the reasons for refusing the others.
void find_able(const Terms& terms, const Part& part, Able* able);
// The candidates that can run it on the host, where the device supports it too.
std::vector<tune::Candidate> those_beside(const Terms& terms, const Part& part, std::vector<tune::Refusal>* refusals);

}  // namespace peri::lower
