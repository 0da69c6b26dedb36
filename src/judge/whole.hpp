// Compares a whole output with float64. Radii that grow along a deep graph soon allow everything; here the bound is how
// far the model's own output moves when every value is rounded to its type.
#pragma once

#include <span>
#include <string>

#include "ops/entry.hpp"

namespace peri::judge {

// Values of an answer may lie this far from the exact one, as a share of the output's range...
constexpr double kShareOfRange = 1e-3;
// ...or this many times as far as the reference with every value rounded, where that is more: rounding once a value is
// the least an engine does; sums of K products round K times, and one sample of an ill-conditioned model may be lucky.
// What a wrong rewriting does is far beyond both; steps are held to their own, narrow bounds.
constexpr double kTimesRounding = 1024;
// ...or this many times as far as the reference with every value rounded to 16 bits, for an engine that keeps values in
// them: other values are rounded there, so the two err apart.
// Rests on: tests/judge/whole_test.cpp (TwoRoundingsErrAlike).
constexpr double kTimesNarrow = 4;
// What the model keeps in 16 bits is stored once, whatever is summed for it: an engine that stores it there too errs as
// often as the reference does that rounds each value to its type. An operator that the model splits into several may
// round each part.
// Rests on: tests/judge/whole_test.cpp (TwoRoundingsErrAlike), times the four nodes of an unfused operator.
constexpr double kTimesStored = 16;
// No multiple of a rounding allows more than this share of the output's spread (see spread_of_values()): an answer to
// other inputs, or to none, is further off somewhere. Where rounding alone moves an answer by half of it, the types do
// not decide what is right: it is left out, and told.
// Rests on: tests/judge/whole_test.cpp (AnAnswerToOtherInputsIsFurtherOff).
constexpr double kMaxShareOfSpread = 1.0 / 8;

struct WholeVerdict {
  double error = -1;     // largest |error| / bound; -1: nothing was compared
  std::string wrong;     // which output is outside, where and by how much; empty: none
  std::string left_out;  // which outputs were not compared, and why
  // Those that hang on a float that is rounded to an integer, compared or chosen among, and are not what float64 says,
  // which may have taken the other side: judge/followed.hpp can tell.
  std::vector<size_t> parted;
};

// `graph` is the model as imported, `got` its outputs in order, `precision` the narrowest type that the engine rounded
// weights and values of the model to: eight of its roundings of the output's range are allowed. Outputs behind an op
// whose result jumps (a comparison, a rounding to integers, a choice) and part from float64 are told apart. A
// cast to 16 bits rounds in float64 too and jumps by no more than that. Errors: those of the reference.
// `values` is the 16-bit type that the engine keeps values between its steps in, if it does.
Result<WholeVerdict> judge_whole(const ir::Graph& graph, std::span<const Tensor> inputs, std::span<const Tensor> got,
                                 int threads, DType precision = DType::kF32, DType values = DType::kF32);

// From the least to the largest finite element; zero counts as one where there are fewer than 16 elements, which may
// all be alike.
double spread_of_values(std::span<const double> values);

// The reference with every value, input and weight rounded to `type`; what is finite stays so.
Result<std::vector<ops::RefTensor>> narrow_reference(const ir::Graph& graph, std::span<const ops::RefTensor> in,
                                                     DType type, int threads);

// What the values on the way are like in float64.
struct Magnitudes {
  double largest = 0;  // of those below 1e30: a mask's -3.4e38 is none
  // A sum is beyond 1e30: float32, which ends at 3.4e38, may overflow there or behind it in one order and not in
  // another.
  bool near_overflow = false;
};
// Errors: those of the reference.
Result<Magnitudes> magnitudes_of(const ir::Graph& graph, std::span<const ops::RefTensor> in, int threads);

// Flops of one run of a graph at these sizes; HUGE_VAL where a size is not known before the run.
double flops_at(const ir::Graph& graph, const DimBinding& sizes);

}  // namespace peri::judge
