// Judges the steps of a run one by one, in the memory that the run uses: each step's region in float64 on the step's
// actual inputs, at 4,096 positions or more where all of them are too expensive.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ops/entry.hpp"
#include "runtime/engine.hpp"

namespace peri::judge {

struct StepVerdict {
  size_t step = 0;
  std::string name, kernel;
  std::string candidate;   // id of the candidate that ran: "gemm_f32@1 {}"
  bool checked = false;    // false: a control step, or one that could not be judged (`why`)
  bool wrong = false;      // outside its bound, as described in `why`
  bool overflows = false;  // its values, or those that it reads, are beyond what float32 sums hold: nothing is proven
  int64_t positions = 0;   // of its results that were compared
  double error = 0;        // largest |error| / bound
  std::string why;
  // A value of the source behind a rounding that a result differs from, and how: where that is a tie it is right. "":
  // none.
  std::string parted, parting;
};

// Values of the model that a step's results are also compared with, by name, with radii accumulated on the way.
struct Values {
  std::map<std::string, ops::RefTensor, std::less<>> by_name;
  std::set<std::string, std::less<>> behind_jumps;  // of those that depend on a rounding, a comparison or a choice
};
// The values of `source` that steps of the program write, with what the arithmetic and the narrowest type that a step
// stores may make of them; none if they are too many to keep.
Result<Values> source_values(const ir::Graph& source, const plan::Program& program, const DimBinding& binding,
                             std::span<const Tensor> inputs, int threads);

struct JudgedRun {
  std::vector<Tensor> outputs;
  std::vector<StepVerdict> steps;  // up to the first wrong one
  bool wrong() const { return !steps.empty() && steps.back().wrong; }
};

// Results of a step that the session has run, row-major: without the padding of a layout.
Result<std::vector<Tensor>> results_of(const runtime::Session& session, size_t step);

// Runs the session on `inputs` with its memory poisoned and every step judged; stops judging at the first wrong one.
// Steps of executors with exec::Entry::by_definition are correct as they are and not computed twice. Sets the session's
// step hook. Errors: those of the run; `*current` is the index of the step.
Result<JudgedRun> judge_steps(runtime::Session& session, std::span<const Tensor> inputs, const Values& source,
                              const std::function<void(size_t step, size_t steps)>& progress, size_t* current);

}  // namespace peri::judge
