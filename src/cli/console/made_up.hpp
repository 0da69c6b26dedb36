// Inputs that the user did not give, where a model refuses them: an index that it counts itself may be out of range
// for random integers, and not for zeros or ones, as of padding.
#pragma once

#include <optional>

#include "base/tensor.hpp"
#include "cli/console/arguments.hpp"
#include "plan/program.hpp"

namespace peri::cli {

// Whether an error may be the fault of made-up inputs: of data, without a remedy, or with one that is about an input.
bool may_be_of_made_up(const Arguments& arguments, const Error& error);
// The error of a run whose inputs are made up: that they are comes before other remedies.
Error of_made_up(Error error);
bool has_integers(const plan::Program& program);  // among its inputs
// Makes the integers of these inputs all `value`; none: leaves them as they are.
std::vector<Tensor> with_integers(std::optional<int64_t> value, std::vector<Tensor> inputs);
// A note that they were.
void note_integers(int64_t value, const Error& others);

// What `attempt` gives with the inputs as they are made, else with all integers 0, else 1; where all fail, the first
// error. Inputs that are given, and errors that others cause, are tried once.
template <class T, class Attempt>
Result<T> with_made_up(const Arguments& arguments, bool has_integers, const Attempt& attempt) {
  Result<T> first = attempt(std::optional<int64_t>());
  if (first.ok() || !may_be_of_made_up(arguments, first.error())) return first;
  for (const int64_t value : {0, 1}) {
    if (!has_integers) break;
    Result<T> made = attempt(std::optional<int64_t>(value));
    if (!made.ok()) continue;
    note_integers(value, first.error());
    return made;
  }
  return of_made_up(std::move(first).error());
}

}  // namespace peri::cli
