// Evidence: everything known about a candidate on a problem, from the process that tried it through cache and build to
// the proof. A new fact is a member here and a line in evidence.cpp, and nothing else.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.hpp"

namespace peri::tune {

// The statistic of Evidence::time_ms: threads that lost their CPU make samples slower, nothing makes them faster.
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr double kTimeQuantile = 0.2;
constexpr std::string_view kTimeStatistic = "p20";
// On a device: what a launch more costs in a chain of launches of one graph (tune/chains.hpp).
constexpr std::string_view kChainStatistic = "slope";
constexpr std::string_view kTimeInWords =
    "each step timed by itself: the 20th percentile of its runs, best of several rounds";

struct Evidence {
  double time_ms = -1;           // of a run, by `statistic` of a visit's samples; -1: not measured, or not believed
  std::string statistic;         // kTimeStatistic or kChainStatistic; empty: no time
  int64_t samples = 0;           // runs that were timed, in all visits
  int64_t visits = 0;            // apart from each other; the time is that of the fastest
  int64_t clock_mhz = 0;         // of a device while it was timed; 0: not known
  double spread = -1;            // by what share of the time the next best visit was slower; -1: there was none
  int64_t workspace_bytes = -1;  // of a step of a device, beside its arguments; -1: not known
  double floor_ms = -1;          // of a device that was timed: what it takes at least, by its ceilings; -1: not told
  std::string untimed;           // why a time that was measured is not believed; empty: it is
  double max_error = -1;         // largest |error| / bound found by verification; -1: not verified
  std::string rejected;          // why the candidate may not be used: wrong answer, worker died; empty: it may
  // Candidate whose answer is right everywhere if this one's is: of another provider, or of its own where no other has
  // an answer. Empty: it stands alone, or everything was held against the reference.
  std::string compared_with;
  int64_t runs = 0, shared_runs = 0;  // to verify it: in all, and with results in the memory of arguments
  int64_t positions = 0;              // of the answer, held against the reference; 0: everything
  int64_t since = 0;                  // second of the epoch at which all this was found out; 0: not told
  int64_t shapes = 0, skipped = 0;    // dims it was tried at, and dims at which that would have been too expensive

  bool right() const { return rejected.empty(); }
  bool timed() const { return time_ms >= 0; }
  bool tried() const { return timed() || max_error >= 0; }
  bool operator==(const Evidence&) const = default;
};

// The one form: an object. Facts that say nothing are left out.
void write_evidence(JsonWriter& w, const Evidence& evidence);
std::string evidence_text(const Evidence& evidence);
// Errors: kInvalid for what is no evidence, or cannot be: a time or an error that is no number, a candidate that is
// right beyond its bound, a time without its statistic.
Result<Evidence> read_evidence(const Json& json);
Result<Evidence> read_evidence(std::string_view text);
Status check_evidence(const Evidence& evidence);

}  // namespace peri::tune
