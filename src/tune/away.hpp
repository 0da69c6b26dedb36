// Operations of a trial on device memory that do not read it back.
#pragma once

#include "runtime/engine.hpp"
#include "tune/expected.hpp"
#include "tune/trial_place.hpp"

namespace peri::tune {

// Checksums of the arguments of step `step` of a one-step program as uploaded to the device: weights in place, the
// others from the sources of the copies before the step.
Result<std::vector<uint64_t>> given_sums(runtime::Session& session, size_t step, const std::vector<bool>& weights,
                                         Checksums& checksums);
// Checksums of the arguments as the step reads them, and of its results.
Result<std::vector<uint64_t>> read_sums(runtime::Session& session, size_t step, Checksums& checksums);
Result<std::vector<uint64_t>> written_sums(runtime::Session& session, size_t step, Checksums& checksums);

// Whether result `k`, row-major, is so large that only parts of it are read.
bool picks(const TrialPlace& place, const ir::Value& result, const Expected* expected, size_t k);
// Result `k` of the step, of which only the elements at ascending positions are read; the others are zero.
Result<Tensor> picked_result(runtime::Session& session, size_t step, size_t k, const ir::Value& result,
                             std::span<const int64_t> positions, const TrialPlace& place);
// The positions of result `k` with an expectation, and the seeded parts that are compared with other results.
std::vector<int64_t> positions_to_read(const ir::Value& result, const Expected& expected, size_t k);

}  // namespace peri::tune
