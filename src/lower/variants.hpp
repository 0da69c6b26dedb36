// Candidates a region may choose from: those valid at all dims, and those valid at the tuned dims only, together with a
// fallback with the same layouts that runs at all others.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "lower/region.hpp"
#include "plan/lock_file.hpp"
#include "tune/tuner.hpp"

namespace peri::lower {

// Choices that were refused after an engine was made of them: per region_key() (conversions: the hash of their graph)
// the candidates' ids with the reason.
using RefusedChoices = std::map<std::string, std::map<std::string, std::string>>;

// So begins the reason of a refusal where a candidate was tried: wrong, or it did not run.
constexpr std::string_view kRejected = "rejected: ";

// Why `candidate` is refused for the problem `key`; empty: it is not.
std::string refused_choice(const RefusedChoices& refused, const std::string& key, const tune::Candidate& candidate);

// The reason of its refusal, as reports have it: what was found when it or its kernel's samples were tried, or in an
// engine; "": it may be taken.
std::string why_not(const tune::Candidate& candidate, const std::string& key, const RefusedChoices& refused,
                    tune::Tuner* tuner);

// That nothing is left which brings a value to another layout: each candidate with what was found against it.
Error no_conversion(const std::string& value, std::span<const std::pair<std::string, std::string>> refusals);

// The tuner's candidates for the region at `tuned_for`, right at those of `also` too wherever they are offered there.
// Errors: those of binding the region.
// `only`: the kernels that matter, none: all.
Result<const tune::Candidates*> candidates_of(const Region& region, const DimBinding& tuned_for,
                                              std::span<const DimBinding> also, tune::Tuner* tuner,
                                              std::span<const kernels::Kernel* const> only = {});

// What is offered for the region at `tuned_for`, of which nothing was tried. Errors: as above.
Result<const tune::Candidates*> offers_of(const Region& region, const DimBinding& tuned_for, tune::Tuner* tuner);

// The candidates among `all`, which were tried at `tuned_for`, that may run the region. One that is not offered at
// every dims of `also` gets `holds_for` and `fallback`, the fastest that is; without such a fallback it is refused.
std::vector<tune::Candidate> usable_candidates(const Region& region, const tune::Candidates& all,
                                               const DimBinding& tuned_for, std::span<const DimBinding> also,
                                               const RefusedChoices& refused, tune::Tuner* tuner,
                                               std::vector<tune::Refusal>* refusals);

// Kernels that are wrong on a sample, with the reason: those of a choice and of what takes other sizes for it (samples
// that did not run yet run now), and what is left without them.
using WrongKernels = std::map<const kernels::Kernel*, std::string>;
void add_wrong(const tune::Candidate& chosen, tune::Tuner* tuner, WrongKernels* wrong);
void leave_out(const WrongKernels& wrong, std::vector<tune::Candidate>* usable, std::vector<tune::Refusal>* refusals);

// Names a candidate on a region, wherever in the graph the same one stands.
std::string problem_of(const Region& region, const tune::Candidate& candidate);

// Leaves the locked candidate alone in `usable` (none: the reference), as the lock has it.
Status keep_locked(const Region& region, const tune::Tuner& tuner, plan::LockReader* lock,
                   std::vector<tune::Candidate>* usable);
// Leaves what the lock chose, with the fallback it chose. kRefused if this machine or version has it not.
Status keep_choice_and_fallback(const plan::LockedChoice& choice, const device::Target& target, std::string_view node,
                                std::vector<tune::Candidate>* usable);

}  // namespace peri::lower
