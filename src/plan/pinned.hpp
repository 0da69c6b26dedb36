// Sizes of a model's dimensions that are constants in its engine, since the structure of the model depends on them: the
// section "pinned", a line NAME=VALUE for each such dimension by its names and by each axis of an input, INPUT.AXIS.
#pragma once

#include "plan/program.hpp"

namespace peri::plan {

constexpr std::string_view kPinnedSection = "pinned";

// Names and sizes in the order of the section's bytes.
std::vector<std::pair<std::string, int64_t>> pinned_sizes(std::string_view section);

}  // namespace peri::plan
