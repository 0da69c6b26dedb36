// The steps on the reference, told apart by whether their time counts.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compile/compile.hpp"

namespace peri::build {

// Whether a step on the reference is slow: it takes a measurable share of a run of `run_ms`, `ms` of it; or, if nothing
// timed it, has more work than a few elements, or nothing bounds it: it is in a body, which may run it often, or the
// data decide its sizes.
bool is_slow(std::optional<double> ms, double run_ms, const tune::RegionWork& work, bool unbounded);

struct OnReference {
  std::vector<const lower::StepReport*> slow, quick;
  double quick_ms = 0;  // of a run; 0: not timed
};
OnReference on_reference(const compile::Compiled& compiled);

// Of a program alone, at its tuned sizes: "1 of 2 steps on the slow reference: p (lp_pool)"; "": none is slow.
std::string slow_steps_text(const plan::Program& program);
// As many of the names as fit into a line.
std::string short_list(const std::set<std::string>& names);

}  // namespace peri::build
