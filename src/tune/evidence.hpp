// Evidence: everything known about a candidate on a problem, from the process that tried it through cache and build to
// the proof. A new fact is a member here and a line in evidence.cpp, and nothing else.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.hpp"

namespace peri::tune {

// The statistic of Evidence::time_ms: preempted threads make samples slower, nothing makes them faster.
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr double kTimeQuantile = 0.2;
constexpr std::string_view kTimeStatistic = "p20";
// On a device: the cost of one more launch in a chain of launches of one graph (tune/chains.hpp).
constexpr std::string_view kChainStatistic = "slope";
constexpr std::string_view kTimeInWords =
    "each step timed by itself: the 20th percentile of its runs, best of several rounds";

struct Evidence {
  double time_ms = -1;           // of a run, by `statistic` of a visit's samples; -1: not measured, or not plausible
  std::string statistic;         // kTimeStatistic or kChainStatistic; empty: no time
  int64_t samples = 0;           // timed runs, in all visits
  int64_t visits = 0;            // separated by other work; the time is that of the fastest
  int64_t clock_mhz = 0;         // of a device while it was timed; 0: unknown
  double spread = -1;            // the next best visit was slower by this share of the time; -1: there was none
  int64_t workspace_bytes = -1;  // of a step of a device, without its arguments; -1: unknown
  double floor_ms = -1;          // of a timed device: lower bound of the time by its ceilings; -1: unknown
  std::string untimed;           // why a measured time is not plausible; empty: it is
  double max_error = -1;         // largest |error| / bound found by verification; -1: not verified
  std::string rejected;          // why the candidate may not be used: wrong result, worker died; empty: it may
  // Candidate such that this one's result is correct everywhere if that one's is: of another provider, or of its own
  // where no other has a result. Empty: there is none, or everything was compared with the reference.
  std::string compared_with;
  int64_t runs = 0, shared_runs = 0;  // to verify it: in all, and with results sharing memory of arguments
  int64_t positions = 0;              // of the result, compared with the reference; 0: all
  int64_t since = 0;                  // second of the epoch at which all this was found; 0: unknown
  int64_t shapes = 0, skipped = 0;    // dims at which it was tried, and dims at which that was too expensive

  bool right() const { return rejected.empty(); }
  bool timed() const { return time_ms >= 0; }
  bool tried() const { return timed() || max_error >= 0; }
  bool operator==(const Evidence&) const = default;
};

// The only form: an object. Unknown facts are omitted.
void write_evidence(JsonWriter& w, const Evidence& evidence);
std::string evidence_text(const Evidence& evidence);
// Errors: kInvalid for malformed or impossible evidence: a time or an error that is not a number, an accepted candidate
// beyond its bound, a time without its statistic.
Result<Evidence> read_evidence(const Json& json);
Result<Evidence> read_evidence(std::string_view text);
Status check_evidence(const Evidence& evidence);

}  // namespace peri::tune
