// A candidate's time is the minimum of several visits: close rivals are visited again, in turn and after other work, so
// that a slow phase of the machine that affects one of them does not decide between them.
#pragma once

#include <span>

#include "base/thread_pool.hpp"
#include "tune/evidence.hpp"

namespace peri::tune {

// Phases of seconds in which a virtual machine ran at 1/1.6 of its speed made one rival look 1.8 times as slow as it
// is: within this ratio of the least time a candidate may be the fastest.
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr double kMaxRivalRatio = 2;
// Visits within this share of each other agree. Two measurements of one kernel differ by as much.
constexpr double kSameTime = 0.03;
constexpr int64_t kMaxVisits = 4;
constexpr size_t kMaxRivals = 6;

// Whether nothing tells a time from the fastest one: it is within kSameTime of it, or within the fastest's own spread
// (Evidence::spread), of which no more than twice that is believed.
bool same_time(double ms, double fastest_ms, double fastest_spread);
// Of candidates of the same time one whose error, as a share of its bound, is so many times smaller is preferred.
constexpr double kMuchError = 1.5;

// How many trials of `each` bytes may wait for their rivals where `free` bytes are left (0: unknown) and one more trial
// is to be created.
size_t most_rivals(double each, double free);

// Whether more samples would not change the result of a visit: the least kSameSamples of them are within kSameTime, or
// all are too far from `best_ms` of another candidate (-1: there is none) for a rival.
constexpr size_t kSameSamples = 3;
bool tells_enough(std::span<const double> samples, double best_ms);

// Merges a further visit into the evidence: the least time is kept, and the distance to the next best.
void add_visit(const Evidence& visit, Evidence* evidence);

// The least time of those that are correct and timed; -1: there is none.
double least_ms(std::span<const Evidence> candidates);

// Those that may be the fastest, fastest first, at most `most`: timed, correct and within kMaxRivalRatio of the least
// time.
std::vector<size_t> rivals_among(std::span<const Evidence> candidates, size_t most = kMaxRivals);

// How close two visits must be to agree, and the largest number of visits.
// Rests on: benchmarks/results/2026-11-23_choice_counts.md.
struct Patience {
  double same = kSameTime;
  int64_t visits = kMaxVisits;
};
// Visits all rivals once more, and then again those of which no two visits agree, while `more` returns true and visits
// are left. `visit(k)`: the result of a visit to candidate k; one without a time is ignored. Leaves the least times.
void visit_rivals(std::span<Evidence> candidates, size_t most, FunctionRef<Evidence(size_t)> visit,
                  FunctionRef<bool()> more, const Patience& patience = {});

}  // namespace peri::tune
