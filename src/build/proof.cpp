// Writes proofs.
#include "build/proof.hpp"

#include <algorithm>
#include <set>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/plural.hpp"
#include "base/version.hpp"
#include "build/last_word.hpp"
#include "build/machine.hpp"
#include "plan/memory.hpp"
#include "tune/cache.hpp"

namespace peri::build {

namespace {
void write_list(JsonWriter& w, std::string_view key, const std::vector<std::string>& list) {
  w.key(key).begin_array();
  for (const std::string& s : list) w.value(s);
  w.end_array();
}

// Why no candidate was tried alone; "": some were.
std::string_view why_untried(const compile::Options& o, const StepsDone& done) {
  if (o.lock) return "no candidate was tried alone: every choice is the lock file's";
  if (!o.tune.verify) return "nothing was verified: the build was told not to";
  return done.steps > 0 && done.verified == 0 ? "no candidate was tried alone" : "";
}

// Why steps have no time; "": all have one.
std::string_view why_unmeasured(const compile::Options& o, const build::Built& built, const StepsDone& done) {
  if (done.measured == done.steps) return "";
  if (o.lock) return "a lock file's choices are not timed";
  if (!o.tune.measure) return "built without tuning";
  if (built.compiled.tuned.untried > 0) {
    const bool interrupted = o.tune.budget_seconds <= 0 || (o.tune.stop && o.tune.stop());
    return interrupted ? "the build was interrupted" : "the time of its budget was over";
  }
  return done.measured > 0 ? "some steps were tried in no run" : "none of them was tried alone";
}

// What was verified: kernels on samples, candidates on their problems.
void write_tiers(JsonWriter& w, const tune::Tuner::Stats& s, std::string_view untried) {
  w.field("worker_deaths", s.worker_deaths);
  if (!untried.empty()) {
    w.field("how", untried);
    return;
  }
  w.field("how",
          "samples: every kernel with a candidate, once for a machine, on the small and edge samples of all ops it "
          "takes (a kernel of a device on a part of them: right_samples ran, samples_left_out did not); problems: "
          "every candidate at the real problem against the "
          "float64 reference with radii for round-off, expensive problems at up to 4096 seeded positions and, where "
          "another candidate's whole answer is at hand, in full against that");
  w.key("samples")
      .begin_object()
      .field("kernels", s.kernels_sampled)
      .field("right_runs", s.sample_runs)
      .field("kernels_refused", s.kernels_refused)
      .field("seconds", s.sample_seconds)
      .key("spent");
  write_spent(w, s.samples_spent);
  w.end_object();
  w.key("problems")
      .begin_object()
      .field("problems", s.problems)
      .field("candidates", s.candidates)
      .field("rejected", s.rejected)
      .field("compared_in_full", s.compared)
      .key("spent");
  write_spent(w, s.trials_spent);
  w.end_object();
  w.key("kernels").begin_array();
  for (const auto& [name, kernel] : s.kernels) {
    w.begin_object()
        .field("kernel", name)
        .field("right_samples", kernel.samples)
        .field("samples_left_out", kernel.samples_left_out)
        .field("samples_not_made", kernel.samples_unmade)
        .field("runs", kernel.runs)
        .field("shared_runs", kernel.shared_runs)
        .field("sample_seconds", kernel.sample_seconds);
    if (!kernel.failed.empty()) w.field("failed", kernel.failed);
    w.end_object();
  }
  w.end_array();
}

void write_sizes(JsonWriter& w, const DimBinding& sizes) {
  w.begin_object();
  for (const auto& [name, value] : sizes) w.field(name, value);
  w.end_object();
}

// What was done to the engine as a whole, at each size, and which choices that cost.
void write_engine_verdict(JsonWriter& w, const build::Built& built) {
  const judge::EngineVerdict& v = built.verdict;
  w.begin_object()
      .field("judged", judged_when(v) != kNotJudged)
      .field("when", judged_when(v))
      .field("seconds", v.seconds);
  if (!v.incomplete.empty()) w.field("incomplete", v.incomplete);
  w.key("sizes").begin_array();
  for (const judge::SizeEvidence& e : v.sizes) {
    w.begin_object().key("dims");
    write_sizes(w, e.sizes);
    if (!e.limit.empty()) {
      w.field(e.no_memory ? "limit_of_this_machine" : "limit_of_the_model", e.limit).end_object();
      continue;
    }
    w.field("steps_judged", e.steps_judged)
        .field("steps_by_definition", e.steps_by_definition)
        .field("positions", e.positions)
        .field("worst_error_over_bound", e.worst_step)
        .field("planned_and_separate_memory_agree", e.same_bits);
    if (e.integers >= 0) w.field("made_up_integers", e.integers).field("other_integers_end_with", e.others);
    if (e.overflowed > 0) w.field("overflow_from", e.overflow).field("steps_overflowed", e.overflowed);
    if (e.nan > 0) w.field("nan_output", e.nan_of).field("nan", e.nan).field("nan_of_elements", e.nan_elements);
    if (e.whole >= 0) w.field("answer_error_over_bound", e.whole);
    if (e.followed > 0) w.field("answer_followed_values", e.followed);
    if (!e.whole_because.empty()) w.field("answer_note", e.whole_because);
    w.end_object();
  }
  w.end_array().key("refused").begin_array();
  for (const build::Refused& r : built.refused)
    w.begin_object()
        .field("name", r.name)
        .field("region", r.key)
        .field("candidate", r.candidate)
        .field("why", r.why)
        .end_object();
  w.end_array().end_object();
}
}  // namespace

namespace {
std::string of_earlier(int64_t since) { return "in an earlier build" + (since ? ", " + utc_text(since) : ""); }
std::string done_when(bool done, const tune::Evidence& e, int64_t begun) {
  if (!done) return "no";
  return e.since >= begun ? "in this build" : of_earlier(e.since);
}
bool is_reference(const lower::StepReport& s) { return s.chosen == "reference" || !s.bodies.empty(); }
bool is_sized(const lower::StepReport& s) { return s.chosen == "sized"; }
}  // namespace

Grounds grounds_of(const Built& built) {
  const std::vector<judge::SizeEvidence>& sizes = built.verdict.sizes;
  return {built.compiled.tuned.begun,
          std::any_of(sizes.begin(), sizes.end(), [](const auto& e) { return e.limit.empty(); })};
}

std::string verified_when(const lower::StepReport& s, const Grounds& grounds) {
  if (is_sized(s)) return grounds.judged ? "in runs of the engine" : "no";
  return is_reference(s) ? "by definition" : done_when(s.evidence.max_error >= 0, s.evidence, grounds.begun);
}

std::string measured_when(const lower::StepReport& s, int64_t begun) {
  if ((!s.evidence.timed() || !s.assumed_sizes.empty()) && s.in_run) return "in runs of the engine";
  return done_when(s.evidence.timed(), s.evidence, begun);
}

std::string judged_when(const judge::EngineVerdict& v) {
  const bool none = std::none_of(v.sizes.begin(), v.sizes.end(), [](const auto& e) { return e.limit.empty(); });
  if (none) return kNotJudged;
  return v.earlier ? of_earlier(v.since) : "in this build";
}

StepsDone steps_done(const Built& built) {
  const compile::Compiled& compiled = built.compiled;
  const bool judged = grounds_of(built).judged;
  StepsDone out;
  for (const lower::StepReport& s : compiled.steps) out.in_bodies -= !s.key.empty();
  for (const lower::StepReport* s : lower::all_reports(compiled.steps)) {
    if (s->key.empty()) continue;
    ++out.in_bodies;
    ++out.steps;
    out.by_definition += is_reference(*s);
    out.in_runs += is_sized(*s) && judged;
    out.verified += is_sized(*s) ? judged : is_reference(*s) || s->evidence.max_error >= 0;
    out.measured += s->evidence.timed() || s->in_run;
    if (!s->evidence.tried() || s->evidence.since >= compiled.tuned.begun) continue;
    out.oldest = out.earlier++ ? std::min(out.oldest, s->evidence.since) : s->evidence.since;
  }
  return out;
}

int64_t body_steps(const compile::Compiled& compiled) {
  return std::ssize(lower::all_reports(compiled.steps)) - std::ssize(compiled.steps);
}

std::string steps_text(int64_t of_run, int64_t in_bodies) {
  return counted(of_run, "step") +
         (in_bodies > 0 ? " and " + std::to_string(in_bodies) + " in bodies of loops and branches" : "");
}

std::string all_steps_text(int64_t steps, int64_t in_bodies) {
  return counted(steps, "step") + (in_bodies > 0 ? " (" + std::to_string(in_bodies) + " in bodies)" : "");
}

std::string judged_whole_text(int64_t steps, int64_t in_bodies) {
  return all_steps_text(steps, in_bodies) + " verified in runs of the whole engine, none alone";
}

void write_step(JsonWriter& w, const lower::StepReport& s, const Grounds& grounds) {
  w.begin_object().field("name", s.name).field("chosen", s.chosen);
  if (!s.own_layouts.empty()) w.field("layouts_chosen", s.own_layouts);
  if (!s.device.empty()) w.field("device", s.device);
  w.field("verified", verified_when(s, grounds)).field("measured", measured_when(s, grounds.begun)).key("evidence");
  tune::write_evidence(w, s.evidence);
  if (!s.fallback.empty()) w.field("fallback", s.fallback);
  if (!s.assumed_sizes.empty()) {
    w.key("assumed_sizes").begin_object();
    for (const auto& [name, size] : s.assumed_sizes) w.field(name, size);
    w.end_object();
  }
  if (s.in_run) w.key("in_run").begin_object().field("runs", s.in_run->runs).field("ms", s.in_run->ms).end_object();
  w.key("work");
  tune::write_work(w, s.work);
  if (s.needs) {
    w.key("needs");
    kernels::write_needs(w, *s.needs);
  }
  w.field("key", s.key).field("problem", s.problem);
  write_list(w, "origins", s.origins);
  write_list(w, "touched_by", s.touched_by);
  w.key("others").begin_array();
  for (size_t k = 0; k < s.others.size(); ++k) {
    w.begin_object().field("id", s.others[k].first);
    if (k < s.other_layouts.size() && !s.other_layouts[k].empty()) w.field("layouts", s.other_layouts[k]);
    w.key("evidence");
    tune::write_evidence(w, s.others[k].second);
    w.end_object();
  }
  w.end_array().key("refusals").begin_array();
  for (const auto& [kernel, reason] : s.refusals)
    w.begin_object().field("kernel", kernel).field("reason", reason).end_object();
  w.end_array();
  if (!s.bodies.empty()) {
    w.key("bodies").begin_array();
    for (const auto& body : s.bodies) {
      w.begin_array();
      for (const lower::StepReport& step : body) write_step(w, step, grounds);
      w.end_array();
    }
    w.end_array();
  }
  w.end_object();
}

namespace {
// The machine's peaks, or that a build this short measured none.
void write_sustained(JsonWriter& w, const compile::Options& o, double tuned_seconds) {
  if (const auto peaks = tune::machine_peaks(o.tune.cache_path, o.tune.threads, tuned_seconds)) {
    w.key("peaks");
    bench::write_peaks(w, *peaks);
  } else {
    w.field("no_peaks", "the build tuned for less time than it takes to measure what the machine sustains");
  }
}
}  // namespace

namespace {
// What holds for all steps, and for how many each thing does.
void write_claims(JsonWriter& w, const build::Built& built, const compile::Options& o) {
  const compile::Compiled& c = built.compiled;
  const StepsDone done = steps_done(built);
  w.begin_object()
      .field("verified", done.verified == done.steps)
      .field("measured", done.measured == done.steps)
      .field("steps", done.steps)
      .field("steps_in_bodies", done.in_bodies)
      .field("steps_verified", done.verified)
      .field("steps_measured", done.measured)
      .field("steps_of_earlier_builds", done.earlier)
      .field("not_measured", why_unmeasured(o, built, done))
      .field("seed", o.tune.seed)
      .field("worker", c.tuned.worker);
  if (!c.tuned.worker) w.field("no_worker", c.tuned.worker_trouble);
  write_tiers(w, c.tuned, why_untried(o, done));
  w.end_object();
}
}  // namespace

void write_on_host(JsonWriter& w, const compile::Compiled& c) {
  w.key("on_host").begin_array();
  for (const lower::HostRegion& h : c.on_host)
    w.begin_object().field("name", h.name).field("reason", h.reason).field("copies_ms", h.copies_ms).end_object();
  w.end_array();
}

std::vector<int64_t> workspaces(const compile::Compiled& c) {
  std::vector<int64_t> out;
  for (const lower::StepReport& s : c.steps)
    out.push_back(s.needs ? static_cast<int64_t>(s.needs->workspace) : s.evidence.workspace_bytes);
  return out;
}

namespace {
// Of a run at the tuned size, in bytes.
void write_memory(JsonWriter& w, const compile::Compiled& c) {
  int64_t weights = 0;
  std::set<const std::byte*> seen;
  for (const Tensor& t : c.weights)
    if (seen.insert(t.bytes().data()).second) weights += static_cast<int64_t>(t.bytes().size());
  w.key("memory").begin_object().field("weights", weights);
  const DimBinding dims{c.program.tuned_for.begin(), c.program.tuned_for.end()};
  const auto arena = plan::plan_arena(c.program, dims);
  if (arena.ok()) {
    w.field("intermediate values", arena->arena_bytes);
    for (size_t d = 0; d < arena->device_bytes.size(); ++d)
      if (arena->device_bytes[d] > 0 && d < c.program.devices.size())
        w.field("intermediate values on " + c.program.devices[d], arena->device_bytes[d]);
  }
  if (const auto all = plan::device_memory(c.program, dims, workspaces(c)); all.ok())
    for (size_t d = 1; d < all->size(); ++d) {
      w.field("workspaces on " + c.program.devices[d], (*all)[d].workspaces);
      w.field("in all on " + c.program.devices[d], (*all)[d].total());
    }
  w.end_object();
}
}  // namespace

std::string proof_json(const build::Built& built, const compile::Options& o, std::optional<uint64_t> engine_hash) {
  const compile::Compiled& c = built.compiled;
  JsonWriter w(1);
  w.begin_object()
      .field("form", kProofForm)
      .field("engine_hash", engine_hash ? hex64(*engine_hash) : "")
      .field("model", o.model)
      .field("name", c.program.name)
      .field("built", utc_text(c.tuned.begun))
      .field("peri", std::string(version()))
      .field("backend", c.program.backend);
  w.key("machine");
  write_machine(w, machine_facts());
  w.key("ceilings");
  bench::write_ceilings(w, bench::machine_ceilings(o.tune.threads));
  write_sustained(w, o, c.tuned.seconds);
  w.field("times_are", c.program.devices.size() > 1 ? "what each row's statistic says" : tune::kTimeInWords);
  w.field("threads", o.tune.threads).key("tuned_for").begin_object();
  for (const auto& [name, value] : c.program.tuned_for) w.field(name, value);
  w.end_object().key("holds_at").begin_array();
  for (const DimBinding& dims : c.bounds) {
    w.begin_object();
    for (const auto& [name, value] : dims) w.field(name, value);
    w.end_object();
  }
  w.end_array();
  w.key("verification");
  write_claims(w, built, o);
  w.key("engine");
  write_engine_verdict(w, built);
  write_whole_graph(w, built.whole);
  w.key("tuner")
      .begin_object()
      .field("problems", c.tuned.problems)
      .field("candidates", c.tuned.candidates)
      .field("measured", c.tuned.measured);
  w.field("from_cache", c.tuned.from_cache)
      .field("rejected", c.tuned.rejected)
      .field("untimed", c.tuned.untimed)
      .field("untried", c.tuned.untried)
      .field("seconds", c.tuned.seconds)
      .end_object();
  write_memory(w, c);
  w.field("predicted_ms", c.predicted_ms).field("conversion_ms", c.conversion_ms);
  w.field("import_seconds", c.import_seconds)
      .field("passes_seconds", c.passes_seconds)
      .field("tune_seconds", c.tune_seconds)
      .key("passes")
      .begin_array();
  for (const auto& p : c.passes)
    w.begin_object()
        .field("name", p.name)
        .field("rewrites", p.rewrites)
        .field("ms", p.ms)
        .field("nodes_before", static_cast<int64_t>(p.nodes_before))
        .field("nodes_after", static_cast<int64_t>(p.nodes_after))
        .field("disabled", p.disabled)
        .end_object();
  w.end_array();
  write_list(w, "notes", c.notes);
  write_on_host(w, c);
  w.key("steps").begin_array();
  const Grounds grounds = grounds_of(built);
  for (const auto& s : c.steps) write_step(w, s, grounds);
  w.end_array().end_object();
  return w.take();
}

}  // namespace peri::build
