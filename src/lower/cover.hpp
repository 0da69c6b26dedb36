// Cover: the parts that a graph is divided into and the candidate for each, with the least sum of measured times,
// including changes of place.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lower/backend.hpp"
#include "lower/parts.hpp"
#include "lower/variants.hpp"
#include "plan/lock_file.hpp"
#include "tune/tuner.hpp"

namespace peri::lower {

// The choice for one region. No kernel takes it: the reference executor runs it.
struct Choice {
  bool reference = false;
  tune::Candidate candidate;            // if not reference
  std::vector<tune::Candidate> others;  // for reports
  std::vector<tune::Refusal> refusals;
  double reference_ms = 0;
};

struct Cover {
  std::vector<Region> regions;  // in the order in which they run
  std::vector<Choice> choices;  // one for each region
  double predicted_ms = 0;      // kernels and changes of place
  double conversion_ms = 0;
};

// A region that runs on the host beside the backend's device.
struct HostRegion {
  std::string name, reason;
  double copies_ms = 0;  // what copies take that it causes
};

// What a cover is chosen for.
struct Terms {
  const ir::Graph& graph;
  const Backend& backend;
  tune::Tuner& tuner;
  const DimBinding& tuned_for;       // the dims that measurements are made at
  std::span<const DimBinding> also;  // other dims at which every choice holds
  const RefusedChoices& refused;     // what no region takes
};

// What is asked of a split or a join before anything of it is measured. Without measuring there are no splits, and of
// joins only those on a device of which a kernel says what it expects: else the greedy cut stands.
PartRules measured_rules(const Terms& terms);

// What a candidate of that time counts in a choice: what is not of the cut has to win by more than two measurements of
// one thing differ, and by more than those of this one did.
double counted_ms(const tune::Evidence& evidence, bool of_the_cut);
// The same of what a device takes in one launch for two or more of the cut's: of times that measurements do not tell
// apart the one of fewer launches is taken, since each costs the host an enqueue and a graph a node.
double counted_for_fewer_ms(const tune::Evidence& evidence, bool of_the_cut);
// Whether it stands for all of two or more of the cut's.
bool joins_parts(const Parts& parts, const Part& part);
// The same of an offer that nobody timed, by what its kernel expects, or a little where it does not say.
double guessed_ms(const kernels::Offer& offer, bool of_the_cut);
// What it may count after further visits: one that was visited once, since no other takes its region, may have met a
// slow phase of the machine, which those beside others were spared.
double hoped_ms(const tune::Evidence& evidence, bool of_the_cut);

// Whether a kernel says of the region what it expects to take.
bool is_guessed(const Terms& terms, const Region& r);
// Whether a part that is not of the cut may stand by this candidate: it was timed, or nothing is and it is guessed.
bool may_stand(const Terms& terms, bool locked, const tune::Candidate& candidate);
// A candidate of those that have the same places, and what its time counts as.
struct Counted {
  size_t candidate = 0;
  double ms = 0;
  int64_t workspace_bytes = -1;  // -1: not known
  bool timed = false;
};
// Which of them is taken: the fastest, but of those that tie with it the one with much less workspace, where both are
// known. In any order.
// REQUIRES: there is one.
const Counted& taken_of(std::span<const Counted> list);

// Whether a cover that calls a library is so much faster than the best one of own kernels that the library is opened
// for it: that takes milliseconds of the first run and memory, whatever share of the steps it runs.
bool worth_a_library(double with_ms, double without_ms);

// What may run a part that nobody timed, of which its kernel says what it expects.
std::vector<tune::Candidate> guessed_candidates(const Terms& terms, const Part& part,
                                                std::vector<tune::Refusal>* refusals);

// Chooses by solve() over all parts. A part that is not of the cut stands only if all of it was measured, and if it is
// better as counted_ms() says, or, where the build had no time left for what it stands for either, by guesses of both;
// where one stands, or would as hoped_ms() says, it and what it stands for are visited once more, and it is chosen
// again. What `lock` holds is not chosen but looked up; kRefused names the region whose candidate, ISA or library is
// not here. `progress` is told each part before it is measured.
using PartProgress = std::function<void(size_t done, size_t total, const Region& region)>;
Result<Cover> choose_cover(const Terms& terms, Parts parts, plan::LockReader* lock, const PartProgress& progress = {});

// The layouts an offer asks for and gives, as a lock spells them.
std::string layouts_text(const kernels::Offer& offer);
// Leaves only the locked candidate in a list, as the lock has it. kRefused if this machine or version has it not.
Status keep_choice(const plan::LockedChoice& choice, const device::Target& target, std::string_view node,
                   std::vector<tune::Candidate>* list);

// Whether a value has its elements in the same order in both layouts: those whose images have one pixel do.
bool same_memory(const ir::Type& type, const ir::Layout& a, const ir::Layout& b);

}  // namespace peri::lower
