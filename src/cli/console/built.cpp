// Counts properties of the steps.
#include "cli/console/built.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/clock.hpp"
#include "base/plural.hpp"
#include "base/shell_word.hpp"
#include "build/on_reference.hpp"
#include "build/outside_fates.hpp"
#include "build/proof.hpp"
#include "build/reference_why.hpp"
#include "lower/variants.hpp"

namespace peri::cli {

namespace {
constexpr size_t kShown = 5;  // limit of rejected candidates named

struct Rejected {
  std::string step, candidate, why;
  auto operator<=>(const Rejected&) const = default;
};

// Each candidate once: equal problems are tried once and reported with their first step.
std::vector<Rejected> rejected_of(const build::Made& made) {
  std::vector<Rejected> out;
  std::set<std::string> problems;
  for (const lower::StepReport* s : lower::all_reports(made.built.compiled.steps)) {
    if (!problems.insert(s->problem).second) continue;
    for (const auto& [id, reason] : s->refusals)
      if (reason.starts_with(lower::kRejected)) out.push_back({s->name, id, reason.substr(lower::kRejected.size())});
  }
  for (const build::Refused& r : made.built.refused) out.push_back({r.name, r.candidate, "in the engine: " + r.why});
  return out;
}

double worst_error(const build::Made& made) {
  double worst = -1;
  for (const lower::StepReport* s : lower::all_reports(made.built.compiled.steps))
    worst = std::max(worst, s->evidence.max_error);
  for (const judge::SizeEvidence& e : made.built.verdict.sizes)
    if (e.limit.empty()) worst = std::max({worst, e.worst_step, e.whole});
  return worst;
}

std::string age_text(int64_t seconds) {
  const auto of = [](int64_t n, const char* unit) {
    return format("%lld %s%s ago", static_cast<long long>(n), unit, n == 1 ? "" : "s");
  };
  if (seconds < 120) return of(std::max<int64_t>(0, seconds), "second");
  if (seconds < 7200) return of(seconds / 60, "minute");
  return seconds < 172800 ? of(seconds / 3600, "hour") : of(seconds / 86400, "day");
}

// Where a size is 0, candidates were timed at 1.
std::string sizes_of(const plan::Program& program) {
  std::string out;
  for (const auto& [name, value] : program.tuned_for)
    out += (out.empty() ? " at " : ",") + name + "=" + std::to_string(std::max<int64_t>(value, 1));
  return out;
}

// " (det)": the operators of a step, from the text of its problem: "det x=f32[n,3,3]" or "region graph { y: f32[n] =
// det(x); }".
std::string operators_of(const lower::StepReport& step) {
  const std::string& text = step.problem;
  if (!text.starts_with("region ")) return text.empty() ? "" : " (" + text.substr(0, text.find(' ')) + ")";
  std::set<std::string> names;
  for (size_t at = text.find(" = "); at != std::string::npos; at = text.find(" = ", at + 1)) {
    const size_t from = at + 3, end = text.find_first_of("([{ \n", from);
    if (end != std::string::npos && text[end] == '(') names.insert(text.substr(from, end - from));
  }
  std::erase_if(names, [](const std::string& name) {
    const ops::OpDef* op = ops::find(name);
    return op && op->states_sizes;
  });
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? " (" : ", ") + name;
  return out.empty() ? out : out + ")";
}

std::vector<std::string> reasons_of(const lower::StepReport& step) {
  std::vector<std::string> out;
  for (const auto& [kernel, reason] : step.refusals) out.push_back(reason);
  return out;
}

// The steps with their operators; `what` is said of them.
void show_reference(const Page& page, const std::vector<const lower::StepReport*>& steps, const std::string& what) {
  std::map<build::ReferenceWhy, std::set<std::string>> by_reason;
  for (const lower::StepReport* s : steps)
    by_reason[build::reference_why(reasons_of(*s))].insert(s->name + operators_of(*s));
  for (const auto& [why, names] : by_reason) {
    page.line("reference  %s, %s: %s", build::reference_text(why, "these").c_str(), what.c_str(),
              build::short_list(names).c_str());
    if (why == build::ReferenceWhy::kNoMemory) page.line("           %s", std::string(build::kMoreMemory).c_str());
  }
}

void show_steps(const Page& page, const compile::Compiled& c) {
  const plan::Program& p = c.program;
  int64_t device = 0;
  for (const plan::Step& s : p.steps) device += s.device != plan::kHost;
  const int64_t in_bodies = build::body_steps(c);
  page.line("steps      %zu%s%s", p.steps.size(),
            in_bodies > 0
                ? format(", and %lld in bodies of loops and branches", static_cast<long long>(in_bodies)).c_str()
                : "",
            p.devices.size() > 1
                ? format(", %lld launched on %s", static_cast<long long>(device), p.devices.back().c_str()).c_str()
                : "");
  for (size_t k = 0; k < c.on_host.size() && k < kShown; ++k)
    page.line("on host    '%s', copies for it %.4f ms: %s", c.on_host[k].name.c_str(), c.on_host[k].copies_ms,
              c.on_host[k].reason.c_str());
  if (c.on_host.size() > kShown) page.line("           and %zu more: peri explain ENGINE", c.on_host.size() - kShown);
  const build::OnReference of = build::on_reference(c);
  show_reference(page, of.slow, "they are slow");
  show_reference(page, of.quick,
                 of.quick_ms > 0 ? format("all of them take %.2g %% of a run", 100 * of.quick_ms / c.predicted_ms)
                                 : "which are of few elements");
}
// "3 of 5 steps verified individually, 1 right by definition, 1 in runs of the engine"; where none was tried alone, as
// with a lock, what the judge of the whole engine did.
std::string verified_text(const build::StepsDone& done, bool judged) {
  const int64_t alone = done.verified - done.by_definition - done.in_runs, others = done.by_definition + done.in_runs;
  if (judged && alone == 0 && done.steps > others) {
    std::string text = build::judged_whole_text(done.steps - done.by_definition, done.in_bodies);
    if (done.by_definition) text += format(", %lld right by definition", static_cast<long long>(done.by_definition));
    return text;
  }
  std::string text = format("%lld of %s verified individually", static_cast<long long>(alone),
                            build::all_steps_text(done.steps, done.in_bodies).c_str());
  if (done.by_definition) text += format(", %lld right by definition", static_cast<long long>(done.by_definition));
  if (done.in_runs) text += format(", %lld in runs of the engine", static_cast<long long>(done.in_runs));
  return text;
}
}  // namespace

void show_build(const Page& page, JsonWriter& w, const build::Made& made, const std::string& engine) {
  const compile::Compiled& c = made.built.compiled;
  const tune::Tuner::Stats& t = c.tuned;
  const build::StepsDone done = build::steps_done(made.built);
  const std::vector<Rejected> rejected = rejected_of(made);
  std::error_code unreadable;
  const uintmax_t bytes = std::filesystem::file_size(engine, unreadable);
  page.line("engine     %s%s, proof %s", engine.c_str(),
            unreadable ? "" : (", " + bytes_text(static_cast<double>(bytes))).c_str(),
            build::proof_path(engine).c_str());
  show_steps(page, c);
  if (done.measured > 0 && c.predicted_ms > 0)
    page.line("predicted  %s ms a run%s with %d thread%s%s",
              format(c.predicted_ms < 1e-4  ? "%.2g"
                     : c.predicted_ms < 0.1 ? "%.5f"
                                            : "%.3f",
                     c.predicted_ms)
                  .c_str(),
              sizes_of(c.program).c_str(), made.options.tune.threads, made.options.tune.threads == 1 ? "" : "s",
              done.measured < done.steps
                  ? format(", for %lld of %s: the others have no time", static_cast<long long>(done.measured),
                           build::all_steps_text(done.steps, done.in_bodies).c_str())
                        .c_str()
                  : "");
  if (made.options.lock)
    page.line("tried      no candidates: the lock file names the one of each step");
  else if (!made.options.tune.measure && !made.options.tune.verify)
    page.line("tried      no candidates: each step has the first of those it is offered");
  else if (t.untried > 0)
    page.line("tried      %lld of %s, %s timed now, %zu rejected: there was no time for the others",
              static_cast<long long>(t.problems - t.untried), counted(t.problems, "problem").c_str(),
              counted(t.measured, "candidate").c_str(), rejected.size());
  else
    page.line(
        "tried      %s of %s, %lld timed now%s, %zu rejected", counted(t.candidates, "candidate").c_str(),
        counted(t.problems, "problem").c_str(), static_cast<long long>(t.measured),
        t.from_cache > 0 ? format(", %lld known from the cache", static_cast<long long>(t.from_cache)).c_str() : "",
        rejected.size());
  for (size_t k = 0; k < rejected.size() && k < kShown; ++k)
    page.line("           '%s': %s: %s", rejected[k].step.c_str(), rejected[k].candidate.c_str(),
              rejected[k].why.c_str());
  if (rejected.size() > kShown)
    page.line("           and %zu more: peri explain %s --full", rejected.size() - kShown, shell_word(engine).c_str());
  const std::vector<build::OutsideFate> fates = build::outside_fates(c);
  for (const build::OutsideFate& f : fates) page.line("kernel     %s", f.text().c_str());
  build::write_fates(w, fates);
  if (const double worst = worst_error(made); worst >= 0) {
    page.line("errors     at most %.3g of their bound, %s", worst,
              verified_text(done, build::judged_when(made.built.verdict) != build::kNotJudged).c_str());
    w.field("worst_error_over_bound", worst);
  }
  if (done.earlier > 0)
    page.line("cache      %s verified and timed by an earlier build, the oldest %s; --retune does it again",
              counted(done.earlier, "step").c_str(),
              done.oldest ? age_text(wall_seconds() - done.oldest).c_str() : "some time ago");
  if (const judge::EngineVerdict& v = made.built.verdict; v.earlier)
    page.line("%s the engine as a whole judged by an earlier build, %s; %s does it again",
              done.earlier > 0 ? "          " : "cache     ", age_text(wall_seconds() - v.since).c_str(),
              made.options.tune.measure && !made.options.lock ? "--retune" : "--no-cache");
  w.field("engine_judged", build::judged_when(made.built.verdict));
  if (const std::string open = made.not_judged(); !open.empty()) w.field("engine_not_judged", open);
  const bool tries = !made.options.lock && (made.options.tune.measure || made.options.tune.verify);
  w.field("proof", build::proof_path(engine));
  w.field("candidates", tries ? t.candidates : 0).field("timed_now", t.measured);
  w.field("steps_verified", done.verified).field("steps_measured", done.measured);
  w.field("steps_of_earlier_builds", done.earlier).key("rejected").begin_array();
  for (const Rejected& r : rejected)
    w.begin_object().field("step", r.step).field("candidate", r.candidate).field("why", r.why).end_object();
  w.end_array();
}

}  // namespace peri::cli
