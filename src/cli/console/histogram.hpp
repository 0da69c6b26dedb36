// A histogram for a terminal: the distribution of samples in plain characters, within 60 columns.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace peri::cli {

// One line for each of at most ten ranges from the smallest sample to the 99th percentile, and one for the rest; empty
// if there are too few samples.
std::vector<std::string> histogram(std::span<const double> samples_ms);

}  // namespace peri::cli
