// Explains where an engine's time goes, by its proof: each step's measured time beside the hardware minimum of the
// proof's machine and beside its sustained rates.
#pragma once

#include <optional>

#include "bench/ceilings.hpp"
#include "bench/peaks.hpp"
#include "build/request.hpp"

namespace peri::build {

// One step of a proof.
struct ExplainedStep {
  const Json* step = nullptr;  // its object in the proof
  tune::Evidence evidence;
  tune::RegionWork work;            // of one run of the step
  std::string device;               // "": the host
  bool in_body = false;             // of a loop or a branch
  bool of_engine = false;           // `ms` is of runs of the engine, not of the step alone
  DimBinding assumed_sizes;         // those of the dimensions that the data decide in the evidence
  std::optional<int64_t> runs;      // of the step in one run of the engine; none: in a body, and not counted
  double ms = -1;                   // of these runs together, or of one that nobody counted; negative: no time
  std::optional<double> floor;      // ms at the ceilings of its processor, of the same runs; none: unknown
  std::optional<double> sustained;  // ms at the peaks of the host, of the same runs; none: a step of a device

  bool timed() const { return ms >= 0; }
  double share_of(std::optional<double> least) const { return ms > 0 && least ? *least / ms : 0; }
};

// What the time of a step is that is timed in a run of the engine.
constexpr std::string_view kEngineTimeInWords =
    "steps whose sizes the data decide, loops, branches and steps on the reference: the median of some runs of the "
    "engine on the inputs that peri bench makes up";

struct Explanation {
  bench::Ceilings ceilings;  // that times are compared with
  bench::Peaks peaks;
  std::vector<ExplainedStep> steps;          // the slowest first
  double ms = 0, floor = 0, sustained = 0;   // sums over the steps with a time; without any, over all
  double sustained_of = 0;                   // ms of the steps that are part of `sustained`
  size_t timed = 0, reference = 0;           // steps with a time; steps on the reference
  size_t slow = 0;                           // of those on the reference
  int64_t in_bodies = 0;                     // steps in bodies of loops and branches
  int64_t uncounted = 0;                     // of them: how often they run is not known, they count once in the sums
  size_t floorless = 0, floorless_away = 0;  // of the summed steps: without a floor; of these on a device
  size_t away = 0;                           // of the summed steps: on a device
  std::string untimed_because;               // why steps have no time, from the proof
  std::string proven;   // "; 3 of 9 steps verified, 1 of them in an earlier build"; "" all, in this one
  int64_t threads = 0;  // of the times

  std::string text() const;  // one line
  bool times_runs() const;   // a step has a time of the engine's runs
};

// What the times of its steps are.
std::string times_in_words(const Explanation& explanation);

// The proof of an engine, or of a model that is compiled now, given by request.model; `file`, if it is not empty, is
// read instead, without a check that it belongs to the engine.
Result<Json> proof_of(const Request& request, const std::string& file = "");
// The proof must be of a machine like this one (else kRefused). `compare`: it may be of any, and its times are shown
// beside the floors and peaks of this one. The proof must outlive the explanation. Errors: kInvalid for a proof without
// steps.
Result<Explanation> explain(const Json& proof, bool compare);
std::string explanation_json(const std::string& path, const Json& proof, const Explanation& e);

// "12.3456"; below 0.01 ms in nanoseconds: "0.000123".
std::string ms_digits(double ms);

// Members of a proof's objects: "" and zero where they are missing.
std::string proof_word(const Json& object, std::string_view key);
std::vector<std::string> proof_words(const Json& object, std::string_view key);
const Json::Array& proof_items(const Json& object, std::string_view key);

}  // namespace peri::build
