// Alternating rounds of whole graphs: the program as chosen, and the same with one choice refused.
#include "build/last_word.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/clock.hpp"
#include "base/plural.hpp"
#include "bench/step_graphs.hpp"
#include "build/doubts.hpp"
#include "judge/seeded.hpp"
#include "tune/cache.hpp"
#include "tune/wire.hpp"

namespace peri::build {

namespace {
constexpr size_t kMaxSwaps = 6;  // each is compiled, loaded and timed
// Shares of a build's time: of all swaps, of one comparison, of timing the steps. Not fitted.
constexpr double kMaxSeconds = 4, kContestSeconds = 0.1, kStepsSeconds = 0.4;
// The gain that a swap must have, and the share of rounds that it must win.
constexpr double kGain = 0.004, kRoundsWon = 0.8;
constexpr double kFarOff = 0.2;  // difference of predicted and measured time
constexpr size_t kMaxNamed = 8;  // steps that the report names

// A program as a session that has run once.
struct Running {
  std::shared_ptr<const runtime::Engine> engine;
  std::unique_ptr<runtime::Session> session;
};

Result<Running> running(const compile::Compiled& compiled, const DimBinding& dims,
                        const runtime::EngineOptions& options) {
  Running out;
  runtime::WeightSource weights;
  weights.tensors = compiled.weights;
  PERI_ASSIGN(out.engine, runtime::Engine::create(compiled.program, std::move(weights), options));
  PERI_ASSIGN(out.session, runtime::Session::create(out.engine));
  PERI_ASSIGN(const auto inputs, judge::random_inputs(compiled.program, dims, 7));
  PERI_TRY(out.session->run(inputs));
  return out;
}

// The steps whose time in the run is furthest from what was predicted.
Status name_steps(Running& at, const compile::Compiled& compiled, WholeGraph* whole) {
  PERI_ASSIGN(const bench::StepTimes times, bench::time_steps(*at.session, kStepsSeconds));
  for (size_t k = 0; k < times.steps.size(); ++k) {
    const lower::StepReport& s = compiled.steps[times.steps[k]];
    if (s.evidence.timed()) whole->off.push_back({s.name, s.chosen, s.evidence.time_ms, times.ms[k]});
  }
  std::stable_sort(whole->off.begin(), whole->off.end(), [](const auto& a, const auto& b) {
    return std::fabs(a.measured_ms - a.predicted_ms) > std::fabs(b.measured_ms - b.predicted_ms);
  });
  whole->off.resize(std::min(whole->off.size(), kMaxNamed));
  return Ok{};
}

// Whose choices are the same, by kernels of the same sources, decides the same.
std::string program_key(const compile::Compiled& compiled) {
  return tune::signature() + "\n" + plan::lock_text(compiled.lock);
}

Status read_swap(const Json& json, WholeGraph::Swap* out) {
  for (const auto& [name, to] : {std::pair{"name", &WholeGraph::Swap::name},
                                 {"region", &WholeGraph::Swap::key},
                                 {"chosen", &WholeGraph::Swap::chosen},
                                 {"instead", &WholeGraph::Swap::instead}}) {
    PERI_ASSIGN(const std::string_view text, json.get_string(name));
    out->*to = text;
  }
  PERI_ASSIGN(out->chosen_ms, json.get_double("chosen_ms"));
  PERI_ASSIGN(out->instead_ms, json.get_double("instead_ms"));
  PERI_ASSIGN(out->kept, json.get_bool("kept"));
  return Ok{};
}

// As write_whole_graph() writes it.
Result<WholeGraph> read_whole_graph(const Json& document) {
  WholeGraph out;
  PERI_ASSIGN(const Json* const json, document.get("whole_graph"));
  PERI_ASSIGN(out.predicted_ms, json->get_double("predicted_ms"));
  PERI_ASSIGN(out.measured_ms, json->get_double("measured_ms"));
  PERI_ASSIGN(out.rounds, json->get_int("rounds"));
  PERI_ASSIGN(const Json* const swaps, json->get("swaps"));
  PERI_ASSIGN(const Json::Array* const list, swaps->as_array());
  for (const Json& one : *list) PERI_TRY(read_swap(one, &out.swaps.emplace_back()));
  PERI_ASSIGN(const Json* const off, json->get("furthest_off"));
  PERI_ASSIGN(const Json::Array* const steps, off->as_array());
  for (const Json& one : *steps) {
    WholeGraph::Off& to = out.off.emplace_back();
    PERI_ASSIGN(const std::string_view name, one.get_string("name"));
    PERI_ASSIGN(const std::string_view chosen, one.get_string("chosen"));
    PERI_ASSIGN(to.predicted_ms, one.get_double("predicted_ms"));
    PERI_ASSIGN(to.measured_ms, one.get_double("measured_ms"));
    to.name = name;
    to.chosen = chosen;
  }
  out.timed = true;
  return out;
}

std::string gain_text(const WholeGraph::Swap& s) {
  return format("the whole graph took %.4f ms with it and %.4f without", s.chosen_ms, s.instead_ms);
}

void note_whole(Built* built) {
  const WholeGraph& whole = built->whole;
  const auto kept = std::count_if(whole.swaps.begin(), whole.swaps.end(), [](const auto& s) { return s.kept; });
  built->compiled.notes.push_back(format("whole graph: %.4f ms, predicted %.4f; %td of %s changed in it",
                                         whole.measured_ms, whole.predicted_ms, kept,
                                         counted(std::ssize(whole.swaps), "close choice").c_str()));
}

// What an earlier build found for the same choices, where all of this one's came from the cache too.
Result<bool> recalled(compile::Compilation* compilation, tune::Cache* cache, const std::string& key,
                      lower::RefusedChoices* refused, Built* built) {
  if (!cache || built->compiled.tuned.measured > 0) return false;
  const std::optional<std::string> text = cache->find_whole(key);
  const auto known = text ? parse_json(*text) : Result<Json>(invalid("nothing is known"));
  auto whole = known.ok() ? read_whole_graph(*known) : Result<WholeGraph>(known.error());
  if (!whole.ok()) return false;
  lower::RefusedChoices without = *refused;
  bool changed = false;
  for (const WholeGraph::Swap& s : whole->swaps)
    if (s.kept) {
      without[s.key][s.chosen] = gain_text(s);
      changed = true;
    }
  if (changed) {
    PERI_ASSIGN(built->compiled, compilation->lower(without));
    *refused = std::move(without);
  }
  built->whole = *std::move(whole);
  note_whole(built);
  return true;
}

// What the steps that are timed in the graph were predicted to take; the host's steps and waits are not in it.
double predicted_away_ms(const compile::Compiled& c) {
  double ms = 0;
  for (size_t k = 0; k < c.steps.size(); ++k)
    if (c.program.steps[k].device != plan::kHost && c.steps[k].evidence.timed()) ms += c.steps[k].evidence.time_ms;
  return ms;
}

bool runs_away(const plan::Program& p) {
  return std::any_of(p.steps.begin(), p.steps.end(), [](const plan::Step& s) { return s.device != plan::kHost; });
}
}  // namespace

Status settle_in_graph(compile::Compilation* compilation, runtime::EngineOptions* engines,
                       lower::RefusedChoices* refused, Built* built) {
  const auto& tune = compilation->options().tune;
  const DimBinding& dims = compilation->tuned_for();
  if (!tune.measure || tune.own_executor.empty() || compilation->options().lock || !runs_away(built->compiled.program))
    return Ok{};
  const int64_t start = now_ns();
  double lowered = 0;  // counted as tuning
  WholeGraph& whole = built->whole;
  const std::string key = program_key(built->compiled);
  std::unique_ptr<tune::Cache> cache;
  if (!tune.cache_path.empty() && tune.target)
    cache = tune::Cache::open(tune.cache_path, tune::machine_key(*tune.target), tune.retune);
  PERI_ASSIGN(const bool known, recalled(compilation, cache.get(), key, refused, built));
  if (known) return Ok{};
  PERI_TRY(open_devices(built->compiled.program, engines));
  PERI_ASSIGN(Running now, running(built->compiled, dims, *engines));
  for (const Doubt& d : doubts(built->compiled.steps, kMaxSwaps)) {
    // Clock: a deadline
    if ((tune.stop && tune.stop()) || seconds_since(start) > kMaxSeconds) break;
    lower::RefusedChoices without = *refused;
    without[d.key][d.chosen] = "slower in the whole graph";
    const int64_t begun = now_ns();  // Clock: what is not reported as time of measurements
    auto other = compilation->lower(without, true);
    lowered += seconds_since(begun);  // Clock: the same
    if (!other.ok()) continue;        // nothing else holds wherever this one does
    PERI_ASSIGN(Running then, running(*other, dims, *engines));
    PERI_ASSIGN(const bench::Contest c, bench::time_in_turn(*now.session, *then.session, kContestSeconds));
    const bool gains = c.second_ms < c.first_ms * (1 - kGain) &&
                       static_cast<double>(c.second_faster) >= kRoundsWon * static_cast<double>(c.rounds);
    whole.swaps.push_back({d.name, d.key, d.chosen, d.next, c.first_ms, c.second_ms, gains});
    if (!gains) continue;
    without[d.key][d.chosen] = gain_text(whole.swaps.back());
    *refused = std::move(without);
    built->compiled = std::move(*other);
    now = std::move(then);
  }
  PERI_ASSIGN(const bench::Contest itself, bench::time_in_turn(*now.session, *now.session, kContestSeconds));
  whole.timed = true;
  whole.predicted_ms = predicted_away_ms(built->compiled);
  whole.measured_ms = std::min(itself.first_ms, itself.second_ms);
  whole.rounds = itself.rounds;
  if (std::fabs(whole.predicted_ms - whole.measured_ms) > kFarOff * whole.measured_ms)
    PERI_TRY(name_steps(now, built->compiled, &whole));
  whole.seconds = seconds_since(start) - lowered;
  note_whole(built);
  if (cache && !(tune.stop && tune.stop())) {
    JsonWriter w;
    w.begin_object();
    write_whole_graph(w, whole);
    w.end_object();
    cache->store_whole(key, w.take());
  }
  return Ok{};
}

void write_whole_graph(JsonWriter& w, const WholeGraph& g) {
  if (!g.timed) return;
  w.key("whole_graph")
      .begin_object()
      .field("predicted_ms", g.predicted_ms)
      .field("measured_ms", g.measured_ms)
      .field("rounds", g.rounds)
      .field("seconds", g.seconds)
      .key("swaps")
      .begin_array();
  for (const WholeGraph::Swap& s : g.swaps)
    w.begin_object()
        .field("name", s.name)
        .field("region", s.key)
        .field("chosen", s.chosen)
        .field("instead", s.instead)
        .field("chosen_ms", s.chosen_ms)
        .field("instead_ms", s.instead_ms)
        .field("kept", s.kept)
        .end_object();
  w.end_array().key("furthest_off").begin_array();
  for (const WholeGraph::Off& s : g.off)
    w.begin_object()
        .field("name", s.name)
        .field("chosen", s.chosen)
        .field("predicted_ms", s.predicted_ms)
        .field("measured_ms", s.measured_ms)
        .end_object();
  w.end_array().end_object();
}

}  // namespace peri::build
