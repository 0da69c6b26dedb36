// Compares a whole output with float64. Radii that grow along a deep graph soon allow everything; here the bound is how
// far the model's own output moves when every value is rounded to its type.
#pragma once

#include <span>
#include <string>

#include "ops/entry.hpp"

namespace peri::judge {

// The allowed distance of values of an output from the exact one, as a share of the output's range...
constexpr double kShareOfRange = 1e-3;
// ...or as a multiple of the distance of the reference with every value rounded, if that is more: one rounding per
// value is the least that an engine does; sums of K products round K times, and one sample of an ill-conditioned model
// may have a small error by chance. The error of a wrong rewrite is far beyond both; steps have their own, narrow
// bounds.
constexpr double kTimesRounding = 1024;
// ...or as a multiple of the distance of the reference with every value rounded to 16 bits, for an engine that stores
// values in them: other values are rounded there, so the two errors are independent.
// Rests on: tests/judge/whole_test.cpp (TwoRoundingsErrAlike).
constexpr double kTimesNarrow = 4;
// A value that the model stores in 16 bits is rounded once, however many terms are summed for it: an engine that also
// stores it there rounds as often as the reference that rounds each value to its type. An operator that the model
// splits into several may round each part.
// Rests on: tests/judge/whole_test.cpp (TwoRoundingsErrAlike), times the four nodes of an unfused operator.
constexpr double kTimesStored = 16;
// No multiple of a rounding allows more than this share of the output's spread (see spread_of_values()): an output for
// other inputs, or for none, is further off somewhere. Where rounding alone moves an output by half of it, the types do
// not determine the result: it is skipped, and reported.
// Rests on: tests/judge/whole_test.cpp (AnAnswerToOtherInputsIsFurtherOff).
constexpr double kMaxShareOfSpread = 1.0 / 8;

struct WholeVerdict {
  double error = -1;     // largest |error| / bound; -1: nothing was compared
  std::string wrong;     // which output is outside, where and by how much; empty: none
  std::string left_out;  // which outputs were not compared, and why
  std::string stored;    // which were held against the model with its weights rounded as the engine keeps them
  // Those that depend on a float that is rounded to an integer, compared or selected, and differ from float64, since
  // they may have taken the other side: judge/followed.hpp can decide.
  std::vector<size_t> parted;
};

// `graph` is the model as imported, `got` its outputs in order, `precision` the narrowest type that the engine rounded
// weights and values of the model to: eight of its roundings of the output's range are allowed. Outputs that depend on
// an op whose result jumps (a comparison, a rounding to integers, a choice) and differ from float64 are listed
// separately. A cast to 16 bits is rounded in float64 too and jumps by no more than that. Where `precision` rounds
// weights alone, an output that is off is held against the model with its weights rounded; one that is off there too,
// as where a weight is the product of two, may be off by kTimesNarrow times what rounding them moves it. Errors: those
// of the reference. `values` is the 16-bit type in which the engine stores values between its steps, if it does.
Result<WholeVerdict> judge_whole(const ir::Graph& graph, std::span<const Tensor> inputs, std::span<const Tensor> got,
                                 int threads, DType precision = DType::kF32, DType values = DType::kF32);

// Whether every element is a finite number.
bool all_finite(const Tensor& t);

// From the least to the largest finite element; zero is included where there are fewer than 16 elements, which may all
// be equal.
double spread_of_values(std::span<const double> values);

// The reference with every value, input and weight rounded to `type`; finite values stay finite.
Result<std::vector<ops::RefTensor>> narrow_reference(const ir::Graph& graph, std::span<const ops::RefTensor> in,
                                                     DType type, int threads);

// Magnitudes of the intermediate values in float64.
struct Magnitudes {
  double largest = 0;  // of those below 1e30: a mask's -3.4e38 is ignored
  // A sum is beyond 1e30: float32, whose limit is 3.4e38, may overflow there or later in one order and not in another.
  bool near_overflow = false;
};
// Errors: those of the reference.
Result<Magnitudes> magnitudes_of(const ir::Graph& graph, std::span<const ops::RefTensor> in, int threads);

// Flops of one run of a graph at these sizes; HUGE_VAL where a size depends on data.
double flops_at(const ir::Graph& graph, const DimBinding& sizes);
// Elements of all values that its nodes compute at these sizes; 0 where a size depends on data.
double elements_at(const ir::Graph& graph, const DimBinding& sizes);

}  // namespace peri::judge
