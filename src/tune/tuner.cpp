// Candidates of a problem: offers collected, verified, timed and ordered; equal problems are done once.
#include "tune/tuner.hpp"

#include <algorithm>
#include <bit>
#include <set>

#include "base/clock.hpp"
#include "exec/entry.hpp"
#include "problem/problem.hpp"
#include "tune/apart.hpp"
#include "tune/cache.hpp"
#include "tune/cache_keys.hpp"
#include "tune/candidates.hpp"
#include "tune/contained_judge.hpp"
#include "tune/elsewhere.hpp"
#include "tune/judge.hpp"
#include "tune/rivals.hpp"
#include "tune/worker.hpp"

namespace peri::tune {

struct Tuner::State {
  Options options;
  device::Target target;
  std::unique_ptr<Cache> cache;
  std::unique_ptr<Judge> judge;         // of this process; made when it is needed
  std::unique_ptr<RemoteJudge> remote;  // the worker's
  std::map<std::string, Candidates> by_problem;
  std::map<std::string, Candidates> offers;
  std::map<std::string, double> conversions;
  std::map<const kernels::Kernel*, SampleVerdict> sampled;
  std::set<std::string> foreseen;
  Stats stats;

  bool stopped() const { return options.stop && options.stop(); }
  // Takes what the cache knows of a candidate; false if it has to be tried.
  bool recall(const std::string& key, const ir::Graph& region, Candidate* c);
  // After an interruption: where something was tried, only that may be chosen.
  void leave_untried(Candidates* all);
  const SampleVerdict& samples(const kernels::Kernel& kernel, const std::string& library);
  void decide(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, Candidates* all);
  // Verdicts of the worker, else of this process, one for each; also written into the candidates and the cache.
  std::vector<Verdict> judged(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                              std::vector<Candidate*> fresh, const Terms& terms);
  // Tries what the cache does not know of the candidates from `first` on, and beside them what they are held against.
  void decide_new(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, size_t first,
                  Candidates* all);
  // Tries settings of the fastest candidate's tunables.
  void turn(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, Candidates* all);
  void decide_elsewhere(const ir::Graph& region, const std::vector<bool>& constant, const ir::Graph& there,
                        Candidates* all);
  void count_runs(const Candidate& c, const Evidence& e) {
    KernelRuns& kernel = stats.kernels[std::string(c.kernel->name)];
    kernel.runs += e.runs;
    kernel.shared_runs += e.shared_runs;
  }
  // Under which times are kept: they hold for what is read between the runs.
  // The worker's judge; null if there is none (any more), and then stats say why.
  RemoteJudge* worker();
  Judge& here();
};

Tuner::Tuner(Options options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.target = options.target ? *options.target : device::cpu_target(options.threads, exec::libraries());
  s.options = std::move(options);
  if (s.options.budget_seconds > 0)
    s.options.stop = [stop = s.options.stop, start = now_ns(), most = s.options.budget_seconds] {
      return (stop && stop()) || seconds_since(start) > most;
    };
  s.stats.begun = wall_seconds();
  s.stats.worker = !s.options.worker.empty();
  if (!s.stats.worker) s.stats.worker_trouble = "no worker was asked for";
  if (!s.options.cache_path.empty() && s.options.measure)
    s.cache = Cache::open(s.options.cache_path, machine_key(s.target), s.options.retune);
}
Tuner::~Tuner() = default;
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

bool Tuner::State::recall(const std::string& key, const ir::Graph& region, Candidate* c) {
  if (!cache) return false;
  std::optional<Evidence> known = cache->find(key, candidate_key(*c, region));
  if (!known) return false;
  const bool timed = known->timed() || !known->untimed.empty(), verified = !options.verify || known->max_error >= 0;
  if (known->right() && !(timed && verified)) return false;
  c->evidence = std::move(*known);
  ++stats.from_cache;
  return true;
}

void Tuner::State::leave_untried(Candidates* all) {
  if (std::none_of(all->list.begin(), all->list.end(),
                   [&](const Candidate& c) { return c.evidence.right() && c.evidence.tried(); })) {
    ++stats.untried;
    return;
  }
  for (Candidate& c : all->list)
    if (c.evidence.right() && !c.evidence.tried()) c.evidence.rejected = "not tried: the build had no more time";
}

Judge& Tuner::State::here() {
  stats.worker = false;
  if (!judge) judge = std::make_unique<Judge>(options.threads);
  return *judge;
}

RemoteJudge* Tuner::State::worker() {
  if (remote || !stats.worker) return remote.get();
  auto started = RemoteJudge::start(options.worker, options.threads);
  if (started.ok())
    remote = std::move(*started);
  else {
    stats.worker_trouble = started.error().text();
    stats.worker = false;
  }
  return remote.get();
}

const SampleVerdict& Tuner::State::samples(const kernels::Kernel& kernel, const std::string& library) {
  if (const auto known = sampled.find(&kernel); known != sampled.end()) return known->second;
  const std::string name = samples_key(kernel, library);
  std::optional<SampleVerdict> v;
  if (cache) v = cache->find_samples(name);
  if (!v) {
    const int64_t start = now_ns();
    if (RemoteJudge* w = worker()) {
      auto told = w->samples(kernel);
      if (told.ok()) v = std::move(*told);
    }
    if (!v) v = samples_contained(here(), kernel);
    if (cache && v->lasting) cache->store_samples(name, *v);
    stats.sample_seconds += seconds_since(start);
  }
  stats.kernels[std::string(kernel.name)].samples = v->samples;
  stats.kernels[std::string(kernel.name)].failed = v->failed;
  ++stats.kernels_sampled;
  stats.sample_runs += v->samples;
  stats.kernels_refused += !v->failed.empty();
  return sampled.emplace(&kernel, std::move(*v)).first->second;
}

std::vector<Verdict> Tuner::State::judged(const ir::Graph& region, const std::vector<bool>& constant,
                                          const std::string& key, std::vector<Candidate*> fresh, const Terms& terms) {
  Verdict none;
  none.tried = false;  // until it is told
  std::vector<Verdict> verdicts(fresh.size(), none);
  std::vector<size_t> left(fresh.size());
  for (size_t k = 0; k < fresh.size(); ++k) left[k] = k;
  std::vector<const Candidate*> list(fresh.begin(), fresh.end());
  std::vector<bool> settled(fresh.size(), false);
  if (cache) cache->store_problem({region.clone(), constant});
  const Told told = [&](size_t at, const Verdict* v) {
    if (!v) return;
    const size_t k = left[at];
    Candidate* c = fresh[k];
    settled[k] = true;
    verdicts[k] = *v;
    verdicts[k].evidence.since = wall_seconds();
    c->evidence = verdicts[k].evidence;
    if (cache && v->lasting) cache->store(key, candidate_key(*c, region), c->evidence);
  };
  RemoteJudge* w = worker();
  const Status done = w ? w->judge(region, constant, list, terms, told) : refused("no worker");
  if (!done.ok()) {
    if (w) stats.worker_trouble = done.error().text();
    std::erase_if(left, [&](size_t k) { return settled[k]; });
    list.clear();
    for (size_t k : left) list.push_back(fresh[k]);
    judge_contained(here(), region, constant, list, terms, told);
  }
  for (const Verdict& v : verdicts) {
    stats.measured += v.evidence.timed();
    stats.untimed += !v.evidence.untimed.empty();
    stats.rejected += !v.evidence.right() && v.lasting;
    stats.runs += v.evidence.runs;
    stats.shared_runs += v.evidence.shared_runs;
  }
  return verdicts;
}

void Tuner::State::decide_new(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                              size_t first, Candidates* all) {
  const Terms terms{options.measure,   options.verify,      false,       options.seed,
                    options.budget_ms, options.model_bytes, options.stop};
  std::vector<Candidate*> fresh;
  for (size_t k = first; k < all->list.size(); ++k)
    if (!recall(key, region, &all->list[k])) fresh.push_back(&all->list[k]);
  // A worker that died took the answers along that later ones were to be held against: these come twice.
  for (int round = 0; round < 2 && !stopped(); ++round, fresh.clear()) {
    if (options.verify) {
      const std::vector<Candidate*> again = tried_apart(all->list, fresh);
      if (round == 0 && first == 0) stats.from_cache -= static_cast<int64_t>(again.size());
      for (Candidate* c : again) c->evidence = {};
      fresh.insert(fresh.begin(), again.begin(), again.end());
      std::erase_if(fresh, [&](Candidate* c) {
        return !(c->evidence.rejected = samples(*c->kernel, c->offer.library).failed).empty();
      });
    }
    if (!fresh.empty()) judged(region, constant, key, fresh, terms);
  }
}

void Tuner::State::decide_elsewhere(const ir::Graph& region, const std::vector<bool>& constant, const ir::Graph& there,
                                    Candidates* all) {
  const Terms terms{false, true, true, options.seed, options.budget_ms, options.model_bytes, options.stop};
  const std::string key = problem::identity(there, constant) + " elsewhere";
  std::vector<Candidate*> right;
  for (Candidate& c : all->list)
    if (c.evidence.right()) right.push_back(&c);
  judge_elsewhere(region, constant, there, target, right, [&](const ir::Graph& g, std::span<Candidate* const> list) {
    Verdict none;
    none.tried = false;
    std::vector<Verdict> verdicts(list.size(), none);
    std::vector<Candidate*> fresh;
    std::vector<size_t> at;
    for (size_t k = 0; k < list.size(); ++k) {
      const std::optional<Evidence> known = cache ? cache->find(key, candidate_key(*list[k], g)) : std::nullopt;
      if (known && (!known->right() || known->max_error >= 0)) {
        verdicts[k].evidence = *known;
        verdicts[k].tried = true;
      } else {
        fresh.push_back(list[k]);
        at.push_back(k);
      }
    }
    ++stats.elsewhere;
    if (!fresh.empty() && !stopped()) {
      const std::vector<Verdict> now = judged(g, constant, key, fresh, terms);
      for (size_t k = 0; k < at.size(); ++k) verdicts[at[k]] = now[k];
    }
    for (size_t k = 0; k < list.size(); ++k) count_runs(*list[k], verdicts[k].evidence);
    return verdicts;
  });
  std::stable_partition(all->list.begin(), all->list.end(), [](const Candidate& c) { return c.evidence.right(); });
}

void Tuner::State::decide(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                          Candidates* all) {
  if (options.measure && !stopped())
    add_resolved(region, constant, key, {cache.get(), [&] { return worker(); }, [&]() -> Judge& { return here(); }},
                 all);
  decide_new(region, constant, key, 0, all);
  if (stopped()) leave_untried(all);
  put_fastest_first(&all->list);
  if (options.measure && options.settings > 0 && !stopped()) turn(region, constant, key, all);
  for (const Candidate& c : all->list) {
    stats.compared += !c.evidence.compared_with.empty();
    count_runs(c, c.evidence);
  }
}

void Tuner::State::turn(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                        Candidates* all) {
  if (all->list.empty() || !all->list[0].evidence.timed() || !all->list[0].evidence.right()) return;
  const Candidate fastest = all->list[0];
  const size_t known = all->list.size();
  for (std::string& config :
       kernels::settings_of(*fastest.kernel, fastest.offer.config, static_cast<size_t>(options.settings))) {
    all->list.push_back({fastest.kernel, fastest.offer});
    all->list.back().offer.config = std::move(config);
  }
  decide_new(region, constant, key, known, all);
  if (stopped()) leave_untried(all);
  put_fastest_first(&all->list);
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
    for (const ir::Graph& g : also)
      if (problem::identity(g, constant) != key && !s.stopped()) s.decide_elsewhere(region, constant, g, &all);
    for (const Candidate& c : all.list) s.stats.elsewhere_skipped += c.evidence.skipped;
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
  if (s.stopped() || !s.options.measure || !out.timed() || s.stats.again_seconds > kAgainShare * s.stats.seconds)
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
    if (c.kernel->executor == s.options.own_executor &&
        (only.empty() || std::find(only.begin(), only.end(), c.kernel) != only.end()) &&
        !(s.cache && s.cache->find(key, candidate_key(c, region))))
      fresh.push_back(&c);
  if (fresh.empty()) return;
  if (RemoteJudge* w = s.worker(); !w || !w->foresee(region, constant, fresh).ok())
    s.here().foresee(region, constant, fresh);
}

bool Tuner::accepted(const ir::Graph& region, const std::vector<bool>& constant) {
  return !offers(region, constant).list.empty();
}

bool Tuner::offered(const Candidate& candidate, const ir::Graph& region, const std::vector<bool>& constant) {
  return offered_for(candidate, region, constant, state_->target).has_value();
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
  const Candidates& all = candidates(g, {false});
  if (!all.list.empty() && all.list[0].evidence.right() && all.list[0].evidence.timed())
    ms = all.list[0].evidence.time_ms;
  else if (!all.list.empty() && all.list[0].offer.guess_ms > 0)
    ms = all.list[0].offer.guess_ms;
  return state_->conversions[key] = ms;
}

}  // namespace peri::tune
