// Candidates of a problem: offers collected, verified, timed and ordered; equal problems are done once.
#include "tune/tuner.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "exec/entry.hpp"
#include "problem/problem.hpp"
#include "tune/cache_keys.hpp"
#include "tune/contained_judge.hpp"
#include "tune/other_dims.hpp"
#include "tune/rivals.hpp"
#include "tune/trial_place.hpp"
#include "tune/tuner_state.hpp"

namespace peri::tune {

Tuner::Tuner(Options options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.target = options.target ? *options.target : device::cpu_target(options.threads, exec::libraries());
  s.options = std::move(options);
  s.interrupted = s.options.stop;
  if (s.options.budget_seconds > 0)
    s.options.stop = [stop = s.options.stop, start = now_ns(), most = s.options.budget_seconds] {
      return (stop && stop()) || seconds_since(start) > most;
    };
  s.stats.begun = wall_seconds();
  s.stats.worker = !s.options.worker.empty();
  if (!s.stats.worker) s.stats.worker_trouble = s.options.why_no_worker;
  if (!s.options.cache_path.empty() && s.options.measure)
    s.cache = Cache::open(s.options.cache_path, machine_key(s.target), s.options.retune);
  s.open_ahead();
}
Tuner::~Tuner() = default;

void Tuner::State::open_ahead() {
  if (!options.late_samples || !options.verify || !stats.worker || stopped()) return;
  const kernels::Kernel* own = nullptr;
  for (const kernels::Kernel* k : kernels::kernels()) {
    if (k->executor != options.own_executor) continue;
    own = k;
    if (k->library.empty() && cache && cache->find_samples(samples_key(*k, ""))) return;
  }
  if (RemoteJudge* w = own ? worker() : nullptr) (void)w->open_ahead(device_of(*own));
}
const device::Target& Tuner::target() const { return state_->target; }
const Options& Tuner::options() const { return state_->options; }
void Tuner::set_model_bytes(double bytes) {
  PERI_CHECK(state_->stats.measured == 0 || state_->options.model_bytes == bytes,
             "times were taken for a model of another size");
  state_->options.model_bytes = bytes;
}
Tuner::Stats Tuner::stats() const {
  Stats s = state_->stats;
  if (state_->cache) s.cache_trouble = state_->cache->trouble();
  if (state_->remote) s.worker_deaths = state_->remote->deaths();
  return s;
}

const Candidates& Tuner::candidates(const ir::Graph& region, const std::vector<bool>& constant,
                                    std::span<const ir::Graph> also, std::span<const kernels::Kernel* const> only) {
  State& s = *state_;
  const std::string key = problem::identity(region, constant);
  std::string chosen = key;
  if (!s.by_problem.contains(key))
    for (const kernels::Kernel* k : only) chosen += "\nonly " + std::string(k->name);
  std::string whole = chosen;
  if (s.options.verify)
    for (const ir::Graph& g : also)
      if (const std::string other = problem::identity(g, constant); other != key) whole += "\nalso " + other;
  if (const auto it = s.by_problem.find(whole); it != s.by_problem.end()) return it->second;
  if (whole != chosen) {
    Candidates all = candidates(region, constant, {}, only);
    const int64_t start = now_ns();
    if (s.first_right()) s.decide_first_right(region, constant, timing_key(region, constant, s.options), also, &all);
    for (const ir::Graph& g : also)
      if (!s.first_right() && problem::identity(g, constant) != key) s.decide_other_dims(region, constant, g, &all);
    for (const Candidate& c : all.list) s.stats.other_dims_skipped += c.evidence.skipped;
    s.stats.seconds += seconds_since(start);
    return s.by_problem.emplace(whole, std::move(all)).first->second;
  }
  const int64_t start = now_ns();
  Candidates all = offers(region, constant);
  if (chosen != key)
    std::erase_if(all.list,
                  [&](const Candidate& c) { return std::find(only.begin(), only.end(), c.kernel) == only.end(); });
  if ((s.options.measure || s.options.verify) && !all.list.empty())
    s.decide(region, constant, timing_key(region, constant, s.options), &all);
  ++s.stats.problems;
  s.stats.candidates += static_cast<int64_t>(all.list.size());
  s.stats.seconds += seconds_since(start);
  return s.by_problem.emplace(chosen, std::move(all)).first->second;
}

Evidence Tuner::time_again(const ir::Graph& region, const std::vector<bool>& constant, const Candidate& candidate) {
  State& s = *state_;
  Evidence out = candidate.evidence, visit;
  if (s.stopped() || !s.options.measure || s.stats.measured == 0 || !out.timed() ||
      s.stats.again_seconds > kAgainShare * s.stats.seconds)
    return out;
  const int64_t start = now_ns();
  const Terms terms{true, false, false, s.options.seed, s.options.budget_ms, s.options.model_bytes, s.options.stop};
  const Candidate* list[] = {&candidate};
  const Told told = [&](size_t, const Verdict* v) {
    if (v && v->evidence.right()) visit = v->evidence;
  };
  RemoteJudge* w = s.worker();
  const Status done = w ? w->judge(region, constant, list, terms, told) : refused("no worker");
  if (!done.ok()) judge_contained(s.here(), region, constant, list, terms, told);
  add_visit(visit, &out);
  const std::string key = timing_key(region, constant, s.options), name = candidate_key(candidate, region);
  if (auto kept = s.cache ? s.cache->find(key, name) : std::nullopt; kept && kept->timed()) {
    add_visit(visit, &*kept);
    s.cache->store(key, name, *kept);
  }
  ++s.stats.again;
  s.stats.again_seconds += seconds_since(start);
  return out;
}

const Candidates& Tuner::offers(const ir::Graph& region, const std::vector<bool>& constant) {
  const std::string key = problem::identity(region, constant);
  const auto it = state_->offers.find(key);
  return it != state_->offers.end()
             ? it->second
             : state_->offers.emplace(key, collect_offers(region, constant, state_->options, state_->target))
                   .first->second;
}

void Tuner::foresee(const ir::Graph& region, const std::vector<bool>& constant,
                    std::span<const kernels::Kernel* const> only) {
  State& s = *state_;
  if (s.options.own_executor.empty() || !(s.options.measure || s.options.verify) || s.stopped()) return;
  if (!s.foreseen.insert(problem::identity(region, constant)).second) return;
  const std::string key = timing_key(region, constant, s.options);
  std::vector<const Candidate*> fresh;
  for (const Candidate& c : offers(region, constant).list)
    if (c.kernel->executor == s.options.own_executor && c.turn == Turn::kFirst &&
        (only.empty() || std::find(only.begin(), only.end(), c.kernel) != only.end()) &&
        !(s.cache && s.cache->find(key, candidate_key(c, region))))
      fresh.push_back(&c);
  if (fresh.empty()) return;
  // The best guess is what is expected to be chosen. Of what is waited for before anything is tried all are needed.
  const auto known = [&](const Candidate* c) {
    return std::any_of(s.samples_to_foresee.begin(), s.samples_to_foresee.end(),
                       [&](const Candidate* o) { return o->kernel == c->kernel; });
  };
  if (s.first_right()) fresh.resize(1);
  for (const Candidate* c : std::span(fresh).first(s.options.late_samples ? 1 : fresh.size()))
    if (!known(c)) s.samples_to_foresee.push_back(c);
  if (!s.options.late_samples) foresee_samples();
  if (RemoteJudge* w = s.worker(); !w || !w->foresee(region, constant, fresh).ok())
    s.here().foresee(region, constant, fresh);
}

void Tuner::foresee_samples() {
  State& s = *state_;
  for (; s.options.verify && s.samples_foreseen < s.samples_to_foresee.size(); ++s.samples_foreseen) {
    const Candidate& c = *s.samples_to_foresee[s.samples_foreseen];
    if (s.cache && s.cache->find_samples(samples_key(*c.kernel, c.offer.library))) continue;
    if (RemoteJudge* w = s.worker(); !w || !w->foresee_samples(*c.kernel).ok()) s.here().foresee_samples(*c.kernel);
  }
}

std::string Tuner::wrong_on_samples(const Candidate& candidate) {
  State& s = *state_;
  if (!s.options.verify || !s.samples_late(*candidate.kernel)) return "";
  const int64_t start = now_ns();
  const bool known = s.sampled.contains(candidate.kernel);
  const std::string& failed = s.samples(*candidate.kernel, candidate.offer.library).failed;
  if (!known) s.stats.seconds += seconds_since(start);
  return failed;
}

bool Tuner::accepted(const ir::Graph& region, const std::vector<bool>& constant) {
  return !offers(region, constant).list.empty();
}

bool Tuner::offered(const Candidate& candidate, const ir::Graph& region, const std::vector<bool>& constant) {
  return offered_for(candidate, region, constant, state_->target).has_value();
}

const Candidates& Tuner::beside(const ir::Graph& region, const std::vector<bool>& constant,
                                std::span<const ir::Graph> also) {
  State& s = *state_;
  const std::string key = problem::identity(region, constant) + "\nbeside";
  if (const auto it = s.by_problem.find(key); it != s.by_problem.end()) return it->second;
  const int64_t start = now_ns();
  Options others = s.options;
  others.own_executor = "";
  std::erase(others.executors, s.options.own_executor);
  Candidates all = collect_offers(region, constant, others, s.target);
  if ((s.options.measure || s.options.verify) && !all.list.empty())
    s.decide(region, constant, timing_key(region, constant, s.options), &all);
  for (const ir::Graph& g : also)
    if (s.options.verify && problem::identity(g, constant) + "\nbeside" != key)
      s.decide_other_dims(region, constant, g, &all);
  s.stats.candidates += static_cast<int64_t>(all.list.size());
  s.stats.seconds += seconds_since(start);
  return s.by_problem.emplace(key, std::move(all)).first->second;
}

double Tuner::crossing_ms(std::string_view device, double bytes) {
  State& s = *state_;
  const auto it = s.crossings.find(device);
  if (it != s.crossings.end()) return it->second.ms(bytes);
  Crossing known;
  const auto kept = s.cache ? s.cache->find_crossing(device) : std::nullopt;
  if (kept) {
    known = *kept;
  } else if (s.options.measure && !s.stopped()) {
    RemoteJudge* const w = s.worker();
    auto measured = w ? w->crossing(device) : Result<Crossing>(refused("no worker"));
    if (!measured.ok() && !w) measured = s.here().crossing(device);
    if (measured.ok()) known = *measured;
    if (measured.ok() && s.cache) s.cache->store_crossing(device, known);
  }
  return s.crossings.emplace(std::string(device), known).first->second.ms(bytes);
}

double Tuner::convert_ms(DType dtype, const std::vector<int64_t>& dims, const ir::Layout& from, const ir::Layout& to) {
  if (from == to) return 0;
  ir::Graph g;
  ir::Value* x = g.add_input("x", ir::Type(dtype, Shape(dims.begin(), dims.end())));
  x->type.layout = from;
  ir::Value* y = g.add("relayout", {x}, {}, "y")->out();
  y->type = x->type;
  y->type.layout = to;
  g.mark_output(y, "y");
  const std::string key = problem::identity(g, {false});
  auto it = state_->conversions.find(key);
  if (it != state_->conversions.end()) return it->second;
  double n = 1;
  for (int64_t d : dims) n *= static_cast<double>(d);
  double ms = n * dtype_bits(dtype) / 8 * 2 / 4e6;  // 4 GB/s: what a plain permuting loop reaches, until measured
  // What a cover only weighs is not tried where nothing is timed: what it is made of is.
  const Candidates& all = state_->first_right() ? offers(g, {false}) : candidates(g, {false});
  if (!all.list.empty() && all.list[0].evidence.right() && all.list[0].evidence.timed())
    ms = all.list[0].evidence.time_ms;
  else if (!all.list.empty() && all.list[0].offer.guess_ms > 0)
    ms = all.list[0].offer.guess_ms;
  return state_->conversions[key] = ms;
}

}  // namespace peri::tune
