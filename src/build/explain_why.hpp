// Summarises the choices of a proof: why a step has its kernel, and how time is divided by problem, operator and
// kernel.
#pragma once

#include <string>
#include <vector>

#include "build/explain.hpp"

namespace peri::build {

struct Why {
  std::string chosen;                 // "fastest of 4: 12 % ahead of ..."
  std::vector<std::string> slower;    // the correct ones, "ID: 0.123 ms"
  std::vector<std::string> rejected;  // the wrong ones, "ID: rejected: reason"
  std::vector<std::string> refused;   // kernels that do not support it, "KERNEL: reason"
};
// `step`: its object in a proof.
Why why_of(const Json& step);

struct Total {
  std::string name, members;      // members: names of the first steps
  int64_t steps = 0, floors = 0;  // floors: of how many steps one is known
  double ms = 0, floor = 0;
};
// By problem only those that occur more than once.
enum class Grouping { kProblem, kOperator, kKernel };
// The largest time first.
std::vector<Total> totals_of(const Explanation& explanation, Grouping by);

}  // namespace peri::build
