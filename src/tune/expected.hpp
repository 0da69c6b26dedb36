// What a candidate's results are compared with: the region in float64 with the round-off radius of each element, in
// full or, where that is expensive, at as many positions as a budget allows.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/tensor.hpp"
#include "ir/graph.hpp"
#include "ops/entry.hpp"

namespace peri::tune {

// The reference does 0.1 (windows) to 1 (products) Gflop a second. Below kMaxWholeFlops a result is computed in full.
// Above, at as many positions as kPositionFlops allow, kMinPositions to kMaxPositions; what takes more than
// kMaxReferenceFlops even so is not computed.
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr double kMaxWholeFlops = 3e7, kPositionFlops = 1e8, kMaxReferenceFlops = 4e9;
constexpr int64_t kMinPositions = 64, kMaxPositions = 4096;
// Of a result whose lines are computed each as a whole (OpDef::line_axes), as many lines as kPositionFlops allow, and
// at least the first, the last and two between.
constexpr int64_t kMinLines = 4;

struct Expected {
  std::vector<ops::RefTensor> out;
  std::vector<int64_t> positions;  // of output 0, which is then the only one; empty: all of all outputs
  // Where several outputs are too expensive in full: one for each, separately, and nothing in the members above.
  std::vector<Expected> each = {};
  std::shared_ptr<const ir::Graph> region = nullptr;  // in an element of `each`: computes that output alone
  struct Ties;
  // For regions with an inner comparison that round-off may decide either way; made when a result differs. Null: none.
  std::shared_ptr<Ties> ties = nullptr;
};
// The expectation for output `k`; `k` there is 0 if that is one of Expected::each.
inline const Expected& expected_of(const Expected& e, size_t k) { return e.each.empty() ? e : e.each[k]; }
// Number of positions that are compared, of all outputs; 0: all.
int64_t position_count(const Expected& expected);
// Both keep a reference to `region`. Positions are seeded and include both ends of output 0 and of each of its axes.
// Computed once for all candidates of a problem. kRefused: it is too expensive.
Result<Expected> make_expected(const ir::Graph& region, std::span<const Tensor> arguments, int threads, uint64_t seed,
                               int64_t most_positions = kMaxPositions);
// The same at given ascending positions of the only output; empty: everything.
Result<Expected> expected_at(const ir::Graph& region, std::span<const Tensor> arguments, int threads,
                             std::vector<int64_t> positions);

// Finite in float32, whose limit is 3.4e38, and beyond every sum of a real model: a sum beyond it may overflow on its
// way in one order and not in another.
constexpr double kNearOverflow = 1e30;
// Whether the exact result is so near the largest number of its type, or beyond, that an infinity of its sign is
// correct.
bool may_overflow(const ops::RefTensor& want, size_t at);
// Compares row-major results with the expectation; returns the largest |error| / radius or kAccuracy naming the
// position.
Result<double> compare(const Expected& expected, std::span<const Tensor> got);
// Row-major results, for comparison with others'. Of an output that is too large to be read from a device in full,
// `parts` are the ascending positions that were read: the others are zero. Empty: all of it.
struct Answers {
  std::vector<Tensor> out;
  std::vector<std::vector<int64_t>> parts;
};
// Seeded positions at which a result is judged that is not read in full, ascending: runs of adjacent elements, one in
// each stretch of at most kPartStretch elements, and at least kMinParts runs if there are as many. An error in a tile
// of 128 rows by 128 columns is missed with a probability of less than 1 in 1000.
constexpr int64_t kPartRun = 16, kPartStretch = 2048, kMinParts = int64_t{1} << 16;
std::vector<int64_t> part_positions(int64_t count, uint64_t seed);
// At most 64 positions at which two row-major results differ by more than both may, estimated from the expectation's
// positions: twice the largest radius among them. `among`: ascending ones to look at; empty: all. REQUIRES:
// expected.positions is not empty.
std::vector<int64_t> disputed_positions(const Expected& expected, const Tensor& a, const Tensor& b,
                                        std::span<const int64_t> among = {});
// For results without a reference: the largest difference of two whole ones over the round-off of sums as long as the
// region's, of terms as large as its largest element; or kAccuracy.
Result<double> agree(const ir::Graph& region, std::span<const Tensor> a, std::span<const Tensor> b);

}  // namespace peri::tune
