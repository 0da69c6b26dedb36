// Cover: the parts that a graph is divided into and the candidate for each, with the least sum of measured times,
// including changes of place.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lower/backend.hpp"
#include "lower/parts.hpp"
#include "lower/variants.hpp"
#include "lower/wide_sizes.hpp"
#include "plan/lock_file.hpp"
#include "tune/tuner.hpp"

namespace peri::lower {

// The choice for one region. If no kernel supports it, the reference executor runs it.
struct Choice {
  bool reference = false;
  tune::Candidate candidate;            // unless reference
  std::vector<tune::Candidate> others;  // for reports
  std::vector<tune::Refusal> refusals;
  double reference_ms = 0;
};

struct Cover {
  std::vector<Region> regions;  // in the order in which they run
  std::vector<Choice> choices;  // one for each region
  double predicted_ms = 0;      // kernels and conversions
  double conversion_ms = 0;
};

// A region that runs on the host beside the backend's device.
struct HostRegion {
  std::string name, reason;
  double copies_ms = 0;  // time of the copies that it causes
};

// The inputs of the choice of a cover.
struct Terms {
  const ir::Graph& graph;
  const Backend& backend;
  tune::Tuner& tuner;
  const DimBinding& tuned_for;       // the dims at which candidates are timed
  std::span<const DimBinding> also;  // other dims at which every choice must be valid
  const RefusedChoices& refused;     // choices that no region may use
  const WideSizes* wide = nullptr;   // where a region cannot have the first; null: none
};

// Requirements on a split or a join before it is measured. Without measuring there are no splits, and joins only on a
// device for which a kernel gives an estimate: otherwise the greedy cut is used.
PartRules measured_rules(const Terms& terms);

// The time of a candidate for the purpose of choosing: a part that is not of the cut must be faster by more than the
// difference between two measurements of the same thing, and by more than that of its own visits.
double counted_ms(const tune::Evidence& evidence, bool of_the_cut);
// The same for a part that a device executes in one launch instead of two or more of the cut's: of times that
// measurements do not distinguish the one with fewer launches is chosen, since each costs the host an enqueue and a
// graph a node.
double counted_for_fewer_ms(const tune::Evidence& evidence, bool of_the_cut);
// Whether the part replaces two or more parts of the cut.
bool joins_parts(const Parts& parts, const Part& part);
// The same for an offer that was not timed, from its kernel's estimate, or a small constant without one.
double guessed_ms(const kernels::Offer& offer, bool of_the_cut);
// The time that it may count as after further visits: a candidate visited once, since its region has no other, may have
// met a slow phase of the machine that others did not.
double hoped_ms(const tune::Evidence& evidence, bool of_the_cut);

// Whether a kernel gives an estimate for the region.
bool is_guessed(const Terms& terms, const Region& r);
// Whether a part that is not of the cut may be used with this candidate: it was timed, or nothing is and it has an
// estimate.
bool may_stand(const Terms& terms, bool locked, const tune::Candidate& candidate);
// One of the candidates with the same places, and its time for the purpose of choosing.
struct Counted {
  size_t candidate = 0;
  double ms = 0;
  int64_t workspace_bytes = -1;  // -1: not known
  bool timed = false;
  double spread = -1, max_error = -1;  // as in tune::Evidence
};
// The one to choose: the fastest, or, among those that tie with it, one with much less workspace, where both are known;
// where that is much less accurate than others of the same time and no more workspace, the fastest of the most accurate
// (tune/rivals.hpp). In any order. REQUIRES: not empty.
const Counted& taken_of(std::span<const Counted> list);

// Whether a cover that calls a library is so much faster than the best one of own kernels that the library is worth
// loading: that takes milliseconds of the first run and memory, however few steps use it.
bool worth_a_library(double with_ms, double without_ms);

// The candidates for a part that was not timed, with their kernels' estimates.
std::vector<tune::Candidate> guessed_candidates(const Terms& terms, const Part& part,
                                                std::vector<tune::Refusal>* refusals);

// Chooses by solve() over all parts. A part that is not of the cut may be used only if all of it was measured and it is
// faster by counted_ms(), or, if the build had no time left to measure the parts that it replaces, by estimates of
// both; where one is used, or would be by hoped_ms(), it and the parts that it replaces are visited once more, and the
// choice is repeated. What `lock` contains is looked up instead of chosen; kRefused names the region whose candidate,
// ISA or library is missing here. `progress` is called for each part before it is measured.
using PartProgress = std::function<void(size_t done, size_t total, const Region& region)>;
Result<Cover> choose_cover(const Terms& terms, Parts parts, plan::LockReader* lock, const PartProgress& progress = {});

// The layouts of an offer's inputs and outputs, in the notation of locks.
std::string layouts_text(const kernels::Offer& offer);
// Its layouts in words, "row-major to 0231", where others of `all` have the same id and other layouts; else "".
std::string layouts_among(const tune::Candidate& c, std::span<const tune::Candidate> all);
// Keeps only the locked candidate in a list, as recorded in the lock. kRefused if this machine or version lacks it.
Status keep_choice(const plan::LockedChoice& choice, const device::Target& target, std::string_view node,
                   std::vector<tune::Candidate>* list);

// Whether a value has its elements in the same order in both layouts, as images of one pixel do.
bool same_memory(const ir::Type& type, const ir::Layout& a, const ir::Layout& b);

}  // namespace peri::lower
