// What a trial asks of the memory of a device without reading it.
#pragma once

#include "runtime/engine.hpp"
#include "tune/checksums.hpp"

namespace peri::tune {

// Checksums of the arguments of step `step` of a one-step program as they were brought to the device: weights where
// they are, the others where the copies before the step take them from.
Result<std::vector<uint64_t>> given_sums(runtime::Session& session, size_t step, const std::vector<bool>& weights,
                                         Checksums& checksums);
// Of the arguments as the step reads them, and of its results.
Result<std::vector<uint64_t>> read_sums(runtime::Session& session, size_t step, Checksums& checksums);
Result<std::vector<uint64_t>> written_sums(runtime::Session& session, size_t step, Checksums& checksums);

}  // namespace peri::tune
