// Judging that survives a failed check: the candidate under trial is refused with the text of the check, the others get
// their verdicts.
#pragma once

#include "tune/judge.hpp"

namespace peri::tune {

// As Judge::judge(): every candidate gets a verdict.
void judge_contained(Judge& judge, const ir::Graph& region, const std::vector<bool>& constant,
                     std::span<const Candidate* const> candidates, const Terms& terms, const Told& told);
// As Judge::samples().
SampleVerdict samples_contained(Judge& judge, const kernels::Kernel& kernel, const std::function<void()>& before = {});

}  // namespace peri::tune
