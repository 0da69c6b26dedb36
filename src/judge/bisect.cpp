// A step that does what its region says and parts from the source behind a rounding is settled after the run.
#include "judge/bisect.hpp"

#include <algorithm>

#include "base/plural.hpp"
#include "judge/followed.hpp"
#include "plan/program.hpp"

namespace peri::judge {

std::string at_seed(const VerifyTerms& terms, size_t run) {
  return terms.given ? "" : " at seed " + std::to_string(terms.seeds[run]);
}

std::string proves_nothing(const VerifyTerms& terms, size_t run, const std::string& output, int64_t nan, int64_t all) {
  return "output '" + output + "' proves nothing" + at_seed(terms, run) +
         format(": %lld of its %lld elements are NaN, as the wanted ones; --nan-equal takes that for agreement",
                static_cast<long long>(nan), static_cast<long long>(all));
}

namespace {
// The first step that parts from the source where no tie is becomes wrong, and the last.
Status settle_parted(const Subject& s, const VerifyTerms& terms, runtime::Session& session,
                     std::span<const Tensor> inputs, JudgedRun* run) {
  std::vector<std::string> names;
  for (const StepVerdict& step : run->steps)
    if (!step.parted.empty()) names.push_back(step.parted);
  if (names.empty()) return Ok{};
  const auto each = [&](const std::string& value) { terms.tell("'" + value + "' behind a rounding"); };
  std::string why;
  auto first = first_unfollowed(s.reference, names, session, inputs, {terms.threads, 0, each}, &why);
  if (!first.ok() && first.error().kind == ErrorKind::kCancelled) return std::move(first).error();
  if (!first.ok()) why = first.error().text();
  const std::string wrong = first.ok() ? *first : names[0];
  const auto at = std::find_if(run->steps.begin(), run->steps.end(),
                               [&](const StepVerdict& step) { return !wrong.empty() && step.parted == wrong; });
  if (at == run->steps.end()) return Ok{};
  at->wrong = true;
  at->why = at->parting + "; held value by value, " + why;
  run->steps.erase(at + 1, run->steps.end());
  return Ok{};
}
}  // namespace

Result<bool> bisect(const Subject& s, const VerifyTerms& terms, runtime::Session& session,
                    std::span<const Tensor> inputs, Verification* v) {
  const plan::Program& program = s.engine->program();
  Values source;
  if (s.source && !terms.steps_only) {
    terms.tell("the source's values in float64");
    std::vector<std::vector<int64_t>> dims;
    for (const Tensor& t : inputs) dims.push_back(t.dims());
    PERI_ASSIGN(const DimBinding binding, plan::bind_dims(program, dims));
    PERI_ASSIGN(source, source_values(s.reference, program, binding, inputs, s.engine->options().threads));
  }
  size_t at = 0;
  const auto show = [&](size_t step, size_t steps) {
    if (terms.progress) terms.progress(step, steps, program.steps[step].name);
  };
  PERI_ASSIGN(JudgedRun run, judge_steps(session, inputs, source, show, &at));
  PERI_TRY(settle_parted(s, terms, session, inputs, &run));
  int64_t judged = 0;
  for (const StepVerdict& step : run.steps) judged += step.checked;
  const bool right = !run.wrong();
  if (right) {
    v->bisected =
        judged == std::ssize(run.steps) ? format("each of %s is within its own bound", counted(judged, "step").c_str())
        : judged == 0 ? format("none of %s was judged", counted(std::ssize(run.steps), "step").c_str())
                      : format("%lld of %s were judged, each is within its own bound", static_cast<long long>(judged),
                               counted(std::ssize(run.steps), "step").c_str());
  } else {
    const StepVerdict& wrong = run.steps.back();
    v->bisected = format("the first step outside its bound is %zu, '%s' (%s): %s", wrong.step, wrong.name.c_str(),
                         wrong.kernel.c_str(), wrong.why.c_str());
  }
  v->bisect = std::move(run.steps);
  for (size_t k = 0; terms.steps_only && right && k < run.outputs.size(); ++k) {
    const int64_t nan = nan_elements(run.outputs[k]), all = run.outputs[k].numel();
    v->both_nan += nan;
    if (nan && !terms.budget.nan_equal && v->outside.empty())
      v->outside = proves_nothing(terms, terms.seeds.size() - 1, program.outputs[k].name, nan, all);
  }
  return right && v->outside.empty();
}

}  // namespace peri::judge
