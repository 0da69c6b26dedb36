// What is said of the judgement of a whole engine: what it proves, and which sizes and values it does not.
#include <algorithm>

#include "base/plural.hpp"
#include "build/proof.hpp"
#include "build/request.hpp"

namespace peri::build {

namespace {
// Of an engine that was run and not judged.
std::string verified_before(const Built& built) {
  const StepsDone done = steps_done(built);
  const int64_t verified = done.verified - done.by_definition;  // the cache knows them
  if (verified == 0) return ", and nothing of it is verified";
  return format("; %lld of %s verified individually in an earlier build, and the engine as a whole is not",
                static_cast<long long>(verified), all_steps_text(done.steps, done.in_bodies).c_str());
}

// A smallest or largest size that was asked for and at which the engine was not judged: "; not run at batch=256: ...".
std::string of_bounds(const Built& built) {
  const judge::EngineVerdict& v = built.verdict;
  const auto& tuned_for = built.compiled.program.tuned_for;
  std::string out;
  for (const DimBinding& bound : built.compiled.bounds) {
    const auto e = std::find_if(v.sizes.begin(), v.sizes.end(), [&](const auto& s) { return s.sizes == bound; });
    const std::string not_run = "not run at " + judge::sizes_text(bound);
    if ((e != v.sizes.end() && e->limit.empty()) || bound == DimBinding(tuned_for.begin(), tuned_for.end())) continue;
    if (out.find(not_run) != std::string::npos) continue;  // both bounds are one size
    const bool told = v.incomplete.starts_with(not_run);
    out += "; " + (e != v.sizes.end() ? not_run + ": " + e->limit
                   : told             ? v.incomplete
                                      : not_run + ", nor judged there");
  }
  return out;
}

// What is to be done where a model refuses the inputs that a build makes up.
std::string made_up(const judge::SizeEvidence& e) {
  const bool own = e.no_memory || e.limit.find("--") != std::string::npos;  // it has a remedy
  return own ? "" : "; the inputs are made up: peri verify ENGINE --input NAME=FILE judges it on your own";
}

// The same of the size that it is tuned for: "; not run at its tuned size: ...", "; not judged at its tuned size: ...".
std::string of_tuned(const Built& built, const std::string& at) {
  const judge::EngineVerdict& v = built.verdict;
  const auto& tuned_for = built.compiled.program.tuned_for;
  const DimBinding tuned(tuned_for.begin(), tuned_for.end());
  for (const judge::SizeEvidence& e : v.sizes)
    if (e.sizes == tuned) return e.limit.empty() ? "" : "; not run" + at + ": " + e.limit + made_up(e);
  const std::string not_run = "not run at " + judge::sizes_text(tuned) + ": ";
  const bool told = v.incomplete.starts_with(not_run);
  return "; not judged" + at + ": " + (told ? v.incomplete.substr(not_run.size()) : v.incomplete);
}

// Where the engine ran on integers of one value alone, as of padding: "; at sequence=256 ...".
std::string of_constants(const std::vector<judge::SizeEvidence>& sizes) {
  const auto is_constant = [](const judge::SizeEvidence& e) { return e.integers >= 0; };
  const auto first = std::find_if(sizes.begin(), sizes.end(), is_constant);
  if (first == sizes.end()) return "";
  const auto more = std::count_if(first + 1, sizes.end(), is_constant);
  return "; at " + judge::sizes_text(first->sizes) + (more > 0 ? format(" and %td more", more) : "") +
         format(" only with made-up integers that are all %lld: others end with ",
                static_cast<long long>(first->integers)) +
         first->others;
}
// Where an output has NaN: "; with made-up inputs 3 of the 4 elements of 'y' are NaN, ...".
std::string of_nan(const std::vector<judge::SizeEvidence>& sizes) {
  for (const judge::SizeEvidence& e : sizes)
    if (e.overflowed > 0)
      return "; with made-up inputs '" + e.overflow + "' overflows float32" +
             (e.overflowed > 1 ? ": it and " + counted(e.overflowed - 1, "step") + " behind it prove" : ": it proves") +
             " nothing; peri verify ENGINE --input NAME=FILE judges them on your own";
  for (const judge::SizeEvidence& e : sizes)
    if (e.nan > 0)
      return format("; with made-up inputs %lld of the %lld elements of '%s' are NaN", static_cast<long long>(e.nan),
                    static_cast<long long>(e.nan_elements), e.nan_of.c_str()) +
             (e.sizes.empty() ? "" : " at " + judge::sizes_text(e.sizes)) +
             ", in the reference too, and prove nothing: peri verify ENGINE --input NAME=FILE judges it on your own";
  return "";
}
}  // namespace

std::string Made::verdict() const {
  int64_t sizes = 0, steps = 0, by_definition = 0;
  for (const judge::SizeEvidence& e : built.verdict.sizes)
    if (e.limit.empty()) {
      ++sizes;
      steps += e.steps_judged;
      by_definition += e.steps_by_definition;
    }
  const std::string at = built.compiled.program.tuned_for.empty() ? "" : " at its tuned size";  // else it has one only
  if (sizes == 0 && !built.verdict.sizes.empty())
    return "the engine was not run" + at + ": " + built.verdict.sizes[0].limit + made_up(built.verdict.sizes[0]);
  if (const std::string& why = built.verdict.incomplete; sizes == 0 && !why.empty() && built.unjudged_run == "")
    return "it runs" + at + "; its answer was not judged: " + why.substr(why.rfind(": ") + 2);
  if (sizes == 0 && built.unjudged_run && built.verdict.incomplete.empty())
    return built.unjudged_run->empty() ? "it runs" + at + verified_before(built)
                                       : "the engine was not run: " + *built.unjudged_run;
  if (const std::string& why = built.verdict.incomplete; sizes == 0 && !why.empty())
    return why.starts_with("not run ") ? "the engine was " + why : "the engine was not run: " + why;
  if (sizes == 0) return "the engine was not run";
  std::string text = format("right at %s, %s judged", counted(sizes, "size").c_str(), counted(steps, "step").c_str());
  if (built.verdict.earlier) text += " by an earlier build";
  if (by_definition > 0) text += format(", %lld right by definition", static_cast<long long>(by_definition));
  if (!built.refused.empty()) text += ", " + counted(std::ssize(built.refused), "choice") + " refused by it";
  text += of_tuned(built, at) + of_bounds(built) + of_nan(built.verdict.sizes) + of_constants(built.verdict.sizes);
  return built.index_limit.empty() ? text : text + "; " + built.index_limit;
}

std::string Made::not_judged() const {
  if (built.verdict.sizes.empty()) return built.verdict.incomplete;
  const std::string out = of_tuned(built, " at its tuned size") + of_bounds(built);
  return out.empty() ? out : out.substr(2);
}

}  // namespace peri::build
