// Rates from a proof, with the steps beside them.
#include "build/explain.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/plural.hpp"
#include "base/thread_pool.hpp"
#include "build/machine.hpp"
#include "build/on_reference.hpp"
#include "build/open.hpp"
#include "build/proof.hpp"

namespace peri::build {

std::string ms_digits(double ms) { return format(ms < 0.01 ? "%.6f" : "%.4f", ms); }

std::string proof_word(const Json& object, std::string_view key) {
  const auto word = object.get_string(key, "");
  return word.ok() ? std::string(*word) : "";
}

const Json::Array& proof_items(const Json& object, std::string_view key) {
  static const Json kNone;
  const Json* list = object.find(key);
  return (list ? *list : kNone).items();
}

std::vector<std::string> proof_words(const Json& object, std::string_view key) {
  std::vector<std::string> out;
  for (const Json& item : proof_items(object, key))
    if (const auto text = item.as_string(); text.ok()) out.emplace_back(*text);
  return out;
}

Result<Json> proof_of(const Request& request, const std::string& file) {
  if (!file.empty()) return read_proof_file(file);
  if (is_engine(request.model)) return read_proof(request.model);
  PERI_ASSIGN(const Made made, make_whole_engine(request));  // as peri build makes it
  return parse_json(proof_json(made.built, made.options));
}

namespace {
// Those of the machine that took the times, which must be one like this; to compare, those of this one.
Status take_rates(const Json& proof, bool compare, Explanation* e) {
  PERI_ASSIGN(const Json* machine, proof.get("machine"));
  PERI_ASSIGN(const int64_t threads, proof.get_int("threads"));
  if (compare) {
    const int here = std::clamp(static_cast<int>(std::min<int64_t>(threads, usable_cpus())), 1, usable_cpus());
    e->ceilings = bench::machine_ceilings(here);
    e->peaks = bench::measure_peaks(here, 1.0);
    return Ok{};
  }
  if (Status same = check_machine(machine_facts(), *machine); !same.ok())
    return std::move(same).error().advise(
        "build the engine here to explain it; --compare sets its times beside the floors of this machine");
  if (threads > usable_cpus())
    return refused("its times were taken with more threads than this process may use")
        .expecting(format("at most %d", usable_cpus()))
        .but_found(std::to_string(threads))
        .advise("give the process more CPUs; --compare sets its times beside the floors of this machine");
  PERI_ASSIGN(const Json* ceilings, proof.get("ceilings"));
  PERI_ASSIGN(e->ceilings, bench::read_ceilings(*ceilings));
  if (const Json* peaks = proof.find("peaks")) {
    PERI_ASSIGN(e->peaks, bench::read_peaks(*peaks));
  } else {  // a short build left them to who asks; it is the same machine
    e->peaks = bench::measure_peaks(std::clamp(e->ceilings.threads, 1, usable_cpus()), 1.0);
  }
  return Ok{};
}
}  // namespace

namespace {
// What of the steps was verified, and when; why some have no time.
Status take_claims(const Json& proof, Explanation* e) {
  PERI_ASSIGN(const Json* claims, proof.get("verification"));
  PERI_ASSIGN(const int64_t steps, claims->get_int("steps"));
  PERI_ASSIGN(const int64_t verified, claims->get_int("steps_verified"));
  PERI_ASSIGN(const int64_t earlier, claims->get_int("steps_of_earlier_builds"));
  e->untimed_because = proof_word(*claims, "not_measured");
  const Json* const whole = proof.find("engine");
  const auto judged = whole ? whole->get_bool("judged", false) : false;
  if (verified == 0 && steps > 0 && judged.ok() && *judged)
    e->proven = "; " + judged_whole_text(steps, e->in_bodies);
  else if (verified < steps)
    e->proven =
        "; " + std::to_string(verified) + " of " + all_steps_text(steps, e->in_bodies) + " verified individually";
  if (earlier > 0) e->proven += "; " + counted(earlier, "step") + " verified and timed by an earlier build";
  if (whole && proof_word(*whole, "when").starts_with("in an earlier build"))
    e->proven += "; the engine as a whole judged by an earlier build";
  if (whole && !proof_word(*whole, "incomplete").empty())
    e->proven += "; of the engine as a whole: " + proof_word(*whole, "incomplete");
  return Ok{};
}
}  // namespace

namespace {
// The floor of a step is that of what it runs on: a device's was told when the step was timed there.
void take_least(const Explanation& e, ExplainedStep* step) {
  const auto runs = static_cast<double>(step->runs.value_or(1));
  if (step->of_engine && !step->assumed_sizes.empty()) return;  // what is known of its work is that of another size
  step->device = proof_word(*step->step, "device");
  if (step->device.empty() && step->evidence.statistic == tune::kChainStatistic) step->device = "a device";
  if (step->device.empty()) {
    step->floor = runs * e.ceilings.floor_ms(step->work.least);
    step->sustained =
        runs * bench::sustained_ms(e.peaks, step->work.algorithm_flops, step->work.byte_flops, step->work.bytes);
  } else if (step->evidence.floor_ms >= 0) {
    step->floor = runs * step->evidence.floor_ms;
  }
}

// How often it runs, and what it takes: as timed alone, or, where nothing times it alone at its sizes, in a run of the
// engine.
Status take_time(const Json& s, ExplainedStep* step) {
  if (!step->in_body) step->runs = 1;
  if (step->evidence.timed()) step->ms = step->evidence.time_ms;
  if (const Json* assumed = s.find("assumed_sizes"))
    for (const auto& [name, size] : assumed->members()) {
      PERI_ASSIGN(step->assumed_sizes[name], assumed->get_int(name));
    }
  const Json* in_run = s.find("in_run");
  if (!in_run) return Ok{};
  PERI_ASSIGN(const int64_t runs, in_run->get_int("runs"));
  PERI_ASSIGN(const double ms, in_run->get_double("ms"));
  step->runs = runs;
  step->of_engine = !step->evidence.timed() || !step->assumed_sizes.empty();
  step->ms = step->of_engine ? ms : step->evidence.time_ms * static_cast<double>(runs);
  return Ok{};
}

// A step of the proof, and those of its bodies behind it.
Status take_step(const Json& s, Explanation* explained, bool of_run) {
  Explanation& out = *explained;
  ExplainedStep step;
  step.step = &s;
  PERI_ASSIGN(const Json* evidence, s.get("evidence"));
  PERI_ASSIGN(const Json* work, s.get("work"));
  PERI_ASSIGN(step.evidence, tune::read_evidence(*evidence));
  PERI_ASSIGN(step.work, tune::read_work(*work));
  step.in_body = !of_run;
  PERI_TRY(take_time(s, &step));
  out.in_bodies += step.in_body;
  out.uncounted += !step.runs;
  out.timed += step.timed();
  take_least(out, &step);
  if (step.timed()) out.ms += step.ms;
  out.steps.push_back(std::move(step));
  for (const Json& body : proof_items(s, "bodies")) {
    PERI_ASSIGN(const Json::Array* steps, body.as_array());
    for (const Json& inner : *steps) PERI_TRY(take_step(inner, explained, false));
  }
  return Ok{};
}
}  // namespace

Result<Explanation> explain(const Json& proof, bool compare) {
  Explanation out;
  PERI_TRY(take_rates(proof, compare, &out));
  for (const Json& s : proof_items(proof, "steps")) PERI_TRY(take_step(s, &out, true));
  if (out.steps.empty() && !proof.find("steps"))
    return invalid("the proof has no list of steps").advise("build the engine again, which writes its proof");
  for (const ExplainedStep& step : out.steps) {
    const bool reference = proof_word(*step.step, "chosen") == "reference";
    out.reference += reference;
    out.slow += reference && is_slow(step.timed() ? std::optional(step.ms) : std::nullopt, out.ms, step.work,
                                     step.in_body || !step.assumed_sizes.empty());
    if (out.timed && !step.timed()) continue;
    out.floor += step.floor.value_or(0);
    out.floorless += !step.floor;
    out.floorless_away += !step.floor && !step.device.empty();
    out.away += !step.device.empty();
    if (!step.sustained) continue;
    out.sustained += *step.sustained;
    if (step.timed()) out.sustained_of += step.ms;
  }
  PERI_ASSIGN(out.threads, proof.get_int("threads"));
  PERI_TRY(take_claims(proof, &out));
  std::stable_sort(out.steps.begin(), out.steps.end(), [](const ExplainedStep& a, const ExplainedStep& b) {
    if (a.ms != b.ms) return a.ms > b.ms;
    return a.floor.value_or(0) > b.floor.value_or(0);
  });
  return out;
}

// Three places, two digits of what is less: "12.345", "0.00041".
static std::string ms_text(double ms) { return format(ms > 0 && ms < 0.001 ? "%.2g" : "%.3f", ms) + " ms"; }

std::string Explanation::text() const {
  const std::string head =
      steps_text(std::ssize(steps) - in_bodies, in_bodies) + (in_bodies == 0  ? ", "
                                                              : uncounted > 0 ? ", each counted once, "
                                                                              : ", as often as they run, ");
  std::string least = "hardware minimum " + ms_text(floor);
  // Of a step on the host only where its sizes are those of the data.
  if (floorless > 0)
    least += " (of " + counted(static_cast<int64_t>(floorless), "step") +
             (floorless_away == floorless ? " on a device"
              : floorless_away == 0       ? " whose sizes the data decide"
                                          : "") +
             " it is not known)";
  if (timed == 0)
    return head + "none measured" + (untimed_because.empty() ? "" : " (" + untimed_because + ")") + ", " + least;
  const auto untimed = static_cast<int64_t>(steps.size() - timed);
  std::string left = untimed > 0 ? "; " + counted(untimed, "step") + " without a time" : "";
  if (slow) left += "; " + counted(static_cast<int64_t>(slow), "step") + " on the slow reference";
  if (away > 0)
    left += "; what sustained rates would give is not known of " + counted(static_cast<int64_t>(away), "step") +
            " on a device";
  std::string reached;
  if (sustained_of > 0)
    reached =
        format(", %s at sustained rates%s: efficiency %.0f %%", ms_text(sustained).c_str(),
               away > 0        ? format(" of %s on the host", ms_text(sustained_of).c_str()).c_str()
               : floorless > 0 ? format(" of the %s that the other steps take", ms_text(sustained_of).c_str()).c_str()
                               : "",
               100 * sustained / sustained_of);
  return head + ms_text(ms) + " measured, " + least + reached + ", " + counted(threads, "thread") + left;
}

bool Explanation::times_runs() const {
  return std::any_of(steps.begin(), steps.end(), [](const ExplainedStep& s) { return s.timed() && s.of_engine; });
}

std::string times_in_words(const Explanation& e) {
  return std::string(tune::kTimeInWords) + (e.times_runs() ? "; " + std::string(kEngineTimeInWords) : "");
}

std::string explanation_json(const std::string& path, const Json& proof, const Explanation& e) {
  JsonWriter w;
  // Null: no step was measured.
  const auto share = [&w](const char* key, double least, double ms) {
    ms > 0 ? w.field(key, least / ms) : w.key(key).null();
  };
  w.begin_object().field("of", path).field("times_are", times_in_words(e));
  e.timed > 0 ? w.field("total_ms", e.ms) : w.key("total_ms").null();
  w.field("floor_ms", e.floor);
  share("share_of_floor", e.floor, e.ms);
  w.field("sustained_ms", e.sustained).field("sustained_of_ms", e.sustained_of);
  share("share_of_peak", e.sustained, e.sustained_of);
  w.field("steps_without_a_floor", static_cast<int64_t>(e.floorless))
      .field("steps_on_a_device", static_cast<int64_t>(e.away))
      .field("threads", e.threads)
      .field("steps_in_bodies", e.in_bodies)
      .field("steps_timed", static_cast<int64_t>(e.timed))
      .field("steps_on_the_reference", static_cast<int64_t>(e.reference));
  w.key("ceilings");
  bench::write_ceilings(w, e.ceilings);
  w.key("peaks");
  bench::write_peaks(w, e.peaks);
  w.key("layers").begin_array();
  for (const ExplainedStep& r : e.steps) {
    const double ms = r.ms;
    w.begin_object();
    r.runs ? w.field("runs", *r.runs) : w.key("runs").null();
    ms >= 0 ? w.field("ms", ms) : w.key("ms").null();
    if (r.floor) w.field("floor_ms", *r.floor);
    if (r.floor) share("share_of_floor", *r.floor, ms);
    if (r.sustained) w.field("sustained_ms", *r.sustained);
    if (r.sustained) share("share_of_peak", *r.sustained, ms);
    if (!r.device.empty()) w.field("device", r.device);
    w.key("step").value(*r.step).end_object();
  }
  w.end_array();
  for (const char* key : {"machine", "verification", "tuner", "passes", "tuned_for", "memory", "notes"})
    if (const Json* j = proof.find(key)) w.key(key).value(*j);
  w.end_object();
  return w.take();
}

}  // namespace peri::build
