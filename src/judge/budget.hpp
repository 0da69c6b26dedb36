// Whether an output keeps its budget.
#pragma once

#include "judge/verify.hpp"

namespace peri::judge {

// Units of float32's round-off of the largest value that an output may be off where its range is too small beside its
// size for the budget's share of it, as for a softmax of nearly equal values. Narrower types have more room: see
// room_for_rounding().
constexpr double kRoundings = 8;  // as many as Budget::allowed() gives a narrow type, of its range

// Whether all of the difference is of that size. False where the budget was given: it holds for all outputs.
bool by_rounding(const Difference& difference, const Budget& budget, DType type);
// Whether an output breaks a part of the budget that was given, which rules following out: for floats, for others none.
bool kept_budget(const Budget& budget, bool peer, const OutputVerdict& output, DType type);
// What of a budget an answer does not keep; "": it keeps all. `allowed`: of its range.
std::string breach(const OutputVerdict& output, double allowed, const Budget& budget, DType type);

}  // namespace peri::judge
