// The memory of a build itself, which tries candidates and judges the engine: several times that of a run.
#pragma once

#include <algorithm>

#include "compile/compile.hpp"

namespace peri::build {

// Estimates of what the program and its worker hold together, the model's files and what is made of them included.
struct BuildMemory {
  double trying = 0;   // while candidates are tried: arguments, results and float64 reference of the largest problem
  double judging = 0;  // while the engine is judged: packed weights, every buffer twice, float64 reference of a step
  double first = 0;    // the most in the first build of a machine, which tests each kernel
  double peak() const { return std::max(trying, judging); }
};

// `compiled`: a cover of `compilation` by first offers. REQUIRES: a program for the host alone. Measured:
// benchmarks/results/2026-11-30_build_memory.md.
BuildMemory memory_of_build(const compile::Compilation& compilation, const compile::Compiled& compiled, bool tries,
                            bool judges, int threads);

}  // namespace peri::build
