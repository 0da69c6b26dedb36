// Attentions of a cut that no op states: a product whose chain a softmax reads, which a second product reads, and the
// transposes before and behind them. They may run as one region.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lower/region.hpp"

namespace peri::lower {

// Regions of a cut by index, ascending. `reader_of`: for each the only region that reads its only result.
std::vector<std::vector<size_t>> attentions(std::span<const Region* const> cut,
                                            std::span<const std::optional<size_t>> reader_of);

}  // namespace peri::lower
