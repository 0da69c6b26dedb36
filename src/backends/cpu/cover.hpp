// Cover: which candidate runs each region, so that the sum of measured times, layout conversions included, is least.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cpu/region.hpp"
#include "backends/cpu/variants.hpp"
#include "plan/lock_file.hpp"
#include "tune/tuner.hpp"

namespace peri::backends::cpu {

// The choice for one region. No kernel takes it: the reference executor runs it.
struct Choice {
  bool reference = false;
  tune::Candidate candidate;            // if not reference
  std::vector<tune::Candidate> others;  // for reports
  std::vector<tune::Refusal> refusals;
  double reference_ms = 0;
};

struct Cover {
  std::vector<Choice> choices;  // one for each region
  double predicted_ms = 0;      // kernels and conversions
  double conversion_ms = 0;
};

using Binding = DimBinding;

// Chooses by dynamic programming over the regions in order: the cheapest way to make each value in each layout,
// conversions priced by measurement. Exact where values have one user (chains); on DAGs a descent from there, one
// region at a time, until nothing improves. `binding` are the dims the measurements are made at; every choice holds at
// those of `also` too, and none is one of `refused`. What `lock` holds is not chosen but looked up; kRefused names the
// region whose candidate, ISA or library is not here.
Result<Cover> choose_cover(const std::vector<Region>& regions, tune::Tuner& tuner, const Binding& binding,
                           std::span<const DimBinding> also, const RefusedChoices& refused, plan::LockReader* lock);

// What a lock file calls a region: a hash of its graph with symbolic dims.
std::string region_key(const Region& region);

// The layouts an offer asks for and gives, as a lock spells them.
std::string layouts_text(const kernels::Offer& offer);
// Leaves only the locked candidate in a list, as the lock has it. kRefused if this machine or version has it not.
Status keep_choice(const plan::LockedChoice& choice, const device::Target& target, std::string_view node,
                   std::vector<tune::Candidate>* list);

}  // namespace peri::backends::cpu
