// The host and a device as the two sides of a cover: which one a candidate runs on, and the cost of copying a value
// across.
#pragma once

#include <span>
#include <vector>

#include "lower/lower.hpp"

namespace peri::lower {

// Whether the backend's kernels run on a device and all others on the host.
bool has_sides(const Backend& backend);
// Whether the candidate runs on the host of a backend with two sides.
bool stays_home(const Backend& backend, const tune::Candidate& candidate);
// Whether all of them do; true if there are none.
bool host_only(const Backend& backend, const std::vector<tune::Candidate>& candidates);
// The time of copying such a value from one side to the other at the tuned dims; 0 if copies are not priced.
double crossing_ms(const Terms& terms, const ir::Type& type);

// The regions of the cover that run on the host, with the reason and the time of the copies that only they cause. None
// where the backend has one side.
std::vector<HostRegion> host_regions(const Terms& terms, const Cover& cover);
// Adds the host's conversions of layout to the placed steps.
void add_host_conversions(const Backend& backend, const plan::Program& program, std::span<const StepReport> steps,
                          std::vector<HostRegion>* out);

}  // namespace peri::lower
