// A candidate's time is the minimum of several visits: close rivals are visited again, in turn and after other work, so
// that a slow phase of the machine that affects one of them does not decide between them.
#pragma once

#include <span>

#include "base/thread_pool.hpp"
#include "tune/evidence.hpp"

namespace peri::tune {

// Phases of seconds in which a virtual machine ran at 1/1.6 of its speed made one rival look 1.8 times as slow as it
// is: up to here of the least time a candidate may be the fastest.
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr double kMaxRivalRatio = 2;
// Visits no further apart than this share tell the same. Two measurements of one kernel differ by as much.
constexpr double kSameTime = 0.03;
constexpr int64_t kMaxVisits = 4;
constexpr size_t kMaxRivals = 6;

// How many trials of `each` bytes may wait for their rivals where `free` bytes are left (0: not known) and one more
// trial is to be made beside them.
size_t most_rivals(double each, double free);

// Whether more samples of a visit would not change what it says: the least kSameSamples of them lie within kSameTime,
// or all are too far from `best_ms` of another candidate (-1: there is none) for a rival.
constexpr size_t kSameSamples = 3;
bool tells_enough(std::span<const double> samples, double best_ms);

// Takes a further visit into the evidence: the least time stands, and how far the next best lies above it.
void add_visit(const Evidence& visit, Evidence* evidence);

// The least time of those that are right and timed; -1: there is none.
double least_ms(std::span<const Evidence> candidates);

// Those that may be the fastest, fastest first, at most `most`: timed, right and within kMaxRivalRatio of the least
// time.
std::vector<size_t> rivals_among(std::span<const Evidence> candidates, size_t most = kMaxRivals);

// How near two visits are to tell the same, and how many there are at most.
// Rests on: benchmarks/results/2026-11-23_choice_counts.md.
struct Patience {
  double same = kSameTime;
  int64_t visits = kMaxVisits;
};
// Visits all rivals once more, and then again those of which no two visits tell the same, while `more` says so and
// visits last. `visit(k)`: what a visit to candidate k finds; what has no time says nothing. Leaves the least
// times.
void visit_rivals(std::span<Evidence> candidates, size_t most, FunctionRef<Evidence(size_t)> visit,
                  FunctionRef<bool()> more, const Patience& patience = {});

}  // namespace peri::tune
