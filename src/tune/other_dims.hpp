// A candidate chosen at the tuned dims runs at all dims for which its kernel makes the same offer, so it must be
// correct there too. Other dims of its region are judged as a separate problem, without timing.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "tune/judge.hpp"

namespace peri::tune {

// Other dims are skipped, and counted so, if the region there takes more flops than this and than at the tuned dims, or
// its tensors more bytes: a run of this many flops takes 4 to 40 ms at 500 to 50 GFLOP a second, poisoning and reading
// this many bytes 25 to 50 ms at 10 GB a second, and the reference costs kPositionFlops at any size. At the tuned dims
// both are needed anyway.
constexpr double kMaxOtherFlops = 2e9, kMaxOtherBytes = 256 << 20;

// The candidate as its kernel offers it for `region`, which is its own at other dims: with the same configuration and
// layouts, and with its memory sharing wherever sizes are equal there too. None: it is not offered there.
std::optional<Candidate> offered_for(const Candidate& candidate, const ir::Graph& region,
                                     const std::vector<bool>& constant, const device::Target& target);

// The same candidate with all its results in memory of their own.
Candidate without_sharing(Candidate candidate);

// Verdicts about candidates of a region, one for each.
using Ask = std::function<std::vector<Verdict>(const ir::Graph& region, std::span<Candidate* const> candidates)>;

// Asks for verdicts at the dims of `there` about those of `candidates`, correct at the dims of `here`, that are offered
// there too, without sharing of memory if not with theirs. One that is wrong there is rejected, with the dims in its
// reason; `evidence` counts the work.
void judge_other_dims(const ir::Graph& here, const std::vector<bool>& constant, const ir::Graph& there,
                      const device::Target& target, std::span<Candidate* const> candidates, const Ask& ask);

}  // namespace peri::tune
