// Writing of proofs, and reading them back.
#include "build/proof.hpp"

#include "base/file.hpp"
#include "base/version.hpp"
#include "build/last_word.hpp"
#include "build/machine.hpp"
#include "tune/cache.hpp"

namespace peri::build {

std::string proof_path(const std::string& engine) { return engine + ".proof"; }

namespace {
void write_list(JsonWriter& w, std::string_view key, const std::vector<std::string>& list) {
  w.key(key).begin_array();
  for (const std::string& s : list) w.value(s);
  w.end_array();
}

// What was verified: kernels on samples, candidates on their problems.
void write_tiers(JsonWriter& w, const tune::Tuner::Stats& s, bool verify) {
  w.field("worker_deaths", s.worker_deaths);
  if (!verify) {
    w.field("how", "nothing was verified: built with --no-verify");
    return;
  }
  w.field("how",
          "samples: every kernel with a candidate, once for a machine, in full on the small and edge samples of all "
          "ops it takes; "
          "problems: every candidate at the real problem against the float64 reference with radii for float32 "
          "round-off, dear "
          "problems at 4096 or more seeded positions and in full against a candidate of another provider");
  w.key("samples")
      .begin_object()
      .field("kernels", s.kernels_sampled)
      .field("right_runs", s.sample_runs)
      .field("kernels_refused", s.kernels_refused)
      .field("seconds", s.sample_seconds)
      .end_object();
  w.key("problems")
      .begin_object()
      .field("problems", s.problems)
      .field("candidates", s.candidates)
      .field("rejected", s.rejected)
      .field("compared_in_full", s.compared)
      .end_object();
  w.key("kernels").begin_array();
  for (const auto& [name, kernel] : s.kernels) {
    w.begin_object().field("kernel", name).field("right_samples", kernel.samples).field("runs", kernel.runs);
    w.field("shared_runs", kernel.shared_runs);
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
  w.begin_object().field("judged", !v.sizes.empty()).field("seconds", v.seconds);
  if (!v.incomplete.empty()) w.field("incomplete", v.incomplete);
  w.key("sizes").begin_array();
  for (const judge::SizeEvidence& e : v.sizes) {
    w.begin_object().key("dims");
    write_sizes(w, e.sizes);
    if (!e.limit.empty()) {
      w.field("limit_of_the_model", e.limit).end_object();
      continue;
    }
    w.field("steps_judged", e.steps_judged)
        .field("steps_by_definition", e.steps_by_definition)
        .field("positions", e.positions)
        .field("worst_error_over_bound", e.worst_step)
        .field("planned_and_separate_memory_agree", e.same_bits);
    if (e.whole >= 0) w.field("answer_error_over_bound", e.whole);
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

void write_step(JsonWriter& w, const lower::StepReport& s) {
  w.begin_object().field("name", s.name).field("chosen", s.chosen).key("evidence");
  tune::write_evidence(w, s.evidence);
  if (!s.elsewhere.empty()) w.field("elsewhere", s.elsewhere);
  w.key("work");
  tune::write_work(w, s.work);
  w.field("key", s.key).field("problem", s.problem);
  write_list(w, "origins", s.origins);
  write_list(w, "touched_by", s.touched_by);
  w.key("others").begin_array();
  for (const auto& [id, evidence] : s.others) {
    w.begin_object().field("id", id).key("evidence");
    tune::write_evidence(w, evidence);
    w.end_object();
  }
  w.end_array().key("refusals").begin_array();
  for (const auto& [kernel, reason] : s.refusals)
    w.begin_object().field("kernel", kernel).field("reason", reason).end_object();
  w.end_array().end_object();
}

Result<Json> read_proof(const std::string& engine) {
  const std::string path = proof_path(engine);
  auto text = read_file(path, size_t{256} << 20);
  if (!text.ok())
    return std::move(text).error().advise("the proof is written by peri build; without it explain the model instead");
  auto json = parse_json(*text);
  if (!json.ok()) return std::move(json).error().in_file(path);
  const auto form = json->get_int("form", 1);
  if (!form.ok() || *form != kProofForm)
    return unsupported("the proof is of another version of peri")
        .in_file(path)
        .expecting(format("form %d", kProofForm))
        .but_found(form.ok() ? format("form %lld", static_cast<long long>(*form)) : "no form")
        .advise("build the engine again, with --locked and its lock file for the same choices");
  return json;
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

std::string proof_json(const build::Built& built, const compile::Options& o) {
  const compile::Compiled& c = built.compiled;
  JsonWriter w(1);
  w.begin_object()
      .field("form", kProofForm)
      .field("model", o.model)
      .field("name", c.program.name)
      .field("peri", std::string(version()))
      .field("backend", c.program.backend);
  w.key("machine");
  write_machine(w, machine_facts());
  w.key("ceilings");
  bench::write_ceilings(w, bench::machine_ceilings(o.tune.threads));
  write_sustained(w, o, c.tuned.seconds);
  w.field("times_are", tune::kTimeInWords);
  w.field("threads", o.tune.threads).key("tuned_for").begin_object();
  for (const auto& [name, value] : c.program.tuned_for) w.field(name, value);
  w.end_object().key("holds_at").begin_array();
  for (const DimBinding& dims : c.bounds) {
    w.begin_object();
    for (const auto& [name, value] : dims) w.field(name, value);
    w.end_object();
  }
  w.end_array()
      .key("verification")
      .begin_object()
      .field("verified", o.tune.verify)
      .field("measured", o.tune.measure)
      .field("seed", static_cast<int64_t>(o.tune.seed))
      .field("worker", c.tuned.worker);
  if (!c.tuned.worker) w.field("no_worker", c.tuned.worker_trouble);
  write_tiers(w, c.tuned, o.tune.verify);
  w.end_object();
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
  w.key("steps").begin_array();
  for (const auto& s : c.steps) write_step(w, s);
  w.end_array().end_object();
  return w.take();
}

}  // namespace peri::build
