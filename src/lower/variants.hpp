// The candidates that a region may choose from: those valid at all dims, and those valid at the tuned dims only,
// together with a fallback with the same layouts that runs at all others.
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

// Prefix of the reason of a refusal after a trial: wrong, or it failed to run.
constexpr std::string_view kRejected = "rejected: ";
// The same where the judge of the whole engine refused the choice.
constexpr std::string_view kRefusedThere = "refused in the engine: ";

// Why `candidate` is refused for the problem `key`; empty: it is not refused.
std::string refused_choice(const RefusedChoices& refused, const std::string& key, const tune::Candidate& candidate);

// The reason of its refusal for reports: the finding of its trial, of its kernel's samples, or of an engine; "": none.
std::string why_not(const tune::Candidate& candidate, const std::string& key, const RefusedChoices& refused,
                    tune::Tuner* tuner);

// The error that no conversion to another layout is left: each candidate with its finding.
Error no_conversion(const std::string& value, std::span<const std::pair<std::string, std::string>> refusals);

// The tuner's candidates for the region at `tuned_for`, also correct at the dims of `also` wherever they are offered
// there. Errors: those of binding the region. `only`: the kernels to consider; none: all.
Result<const tune::Candidates*> candidates_of(const Region& region, const DimBinding& tuned_for,
                                              std::span<const DimBinding> also, tune::Tuner* tuner,
                                              std::span<const kernels::Kernel* const> only = {});

// The offers for the region at `tuned_for`, none of them tried. Errors: as above.
Result<const tune::Candidates*> offers_of(const Region& region, const DimBinding& tuned_for, tune::Tuner* tuner);

// The candidates among `all`, tried at `tuned_for`, that may run the region. One that is not offered at all dims of
// `also` gets `holds_for` and `fallback`, the fastest that is; without such a fallback it is refused.
std::vector<tune::Candidate> usable_candidates(const Region& region, const tune::Candidates& all,
                                               const DimBinding& tuned_for, std::span<const DimBinding> also,
                                               const RefusedChoices& refused, tune::Tuner* tuner,
                                               std::vector<tune::Refusal>* refusals);

// Kernels that are wrong on a sample, with the reason: those of a choice and of its fallbacks (samples that did not run
// yet run now), and the candidates that remain without them.
using WrongKernels = std::map<const kernels::Kernel*, std::string>;
void add_wrong(const tune::Candidate& chosen, tune::Tuner* tuner, WrongKernels* wrong);
void leave_out(const WrongKernels& wrong, std::vector<tune::Candidate>* usable, std::vector<tune::Refusal>* refusals);

// Identifies a candidate on a region, wherever in the graph the same region occurs.
std::string problem_of(const Region& region, const tune::Candidate& candidate);

// Keeps only the locked candidate in `usable` (none: the reference), as recorded in the lock.
Status keep_locked(const Region& region, const tune::Tuner& tuner, plan::LockReader* lock,
                   std::vector<tune::Candidate>* usable);
// Keeps the lock's choice, with its fallback. kRefused if this machine or version lacks it.
Status keep_choice_and_fallback(const plan::LockedChoice& choice, const device::Target& target, std::string_view node,
                                std::vector<tune::Candidate>* usable);

}  // namespace peri::lower
