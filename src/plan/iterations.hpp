// How often a loop of an engine may run: the section "max_iterations" keeps the limit that a build was given, and a run
// without another limit obeys it.
#pragma once

#include <string_view>

#include "plan/program.hpp"

namespace peri::plan {

constexpr std::string_view kIterationsSection = "max_iterations";
constexpr int64_t kMaxIterations = int64_t{1} << 31;  // where neither the build nor the run was given a limit

// Sets the limit of a program's loops; 0: none was given.
void set_iterations(Program* program, int64_t limit);
// Whether a step of the program or of its bodies is a loop.
bool has_loop(const Program& program);
// The limit of a program's loops; 0: none was given. Errors: kInvalid: the section is not a number above 0.
Result<int64_t> iterations_of(const Program& program);

}  // namespace peri::plan
