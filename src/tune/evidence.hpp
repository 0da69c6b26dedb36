// Evidence: everything known about a candidate on a problem, from the process that tried it through cache and build to
// the proof. A new fact is a line of evidence.def, and nothing else.
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
#define PERI_FACT(type, name, unknown, may) type name = unknown;
#include "tune/evidence.def"
#undef PERI_FACT

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
